"""Photographs cut along click points, at full resolution: picture, seconds, peak memory.

    python bench/images.py                        daisy (1.02 million pixels) and crab
    python bench/images.py --only crab --brush 3  a disc of 3 pixels round every click
    python bench/images.py --only elephant --shrink 3
    python bench/images.py --only elephant --subspace exact --beta 0.01

Needs the data folder.
"""

from __future__ import annotations

import sys
from typing import Any

import common

IMAGES = ("daisy", "crab", "camel", "elephant")


def clicks(archive: Any, shape: tuple[int, int], brush: int, shrink: int = 1) -> Any:
    """Labels (h, w) from click points (x, y), numbered from 1; -1 elsewhere.

    A brush labels the pixels at most that far from the click.
    """
    import numpy as np

    h, w = shape
    strokes = np.full(shape, -1, dtype=np.int64)
    steps = range(-brush, brush + 1)
    disc = [(dy, dx) for dy in steps for dx in steps if dy * dy + dx * dx <= brush * brush]
    for c in range(int(archive["n_classes"])):
        at = (np.rint(archive[f"pts{c}"]).astype(int) - 1) // shrink
        for x, y in at:
            for dy, dx in disc:
                if 0 <= y + dy < h and 0 <= x + dx < w:
                    strokes[y + dy, x + dx] = c
    return strokes


def segment(
    source: str,
    picture: str,
    brush: int,
    radius: float,
    similar: int,
    shrink: int,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Image to graph to CSP; then NCut on the same graph, for the picture only."""
    import numpy as np

    import mustlink as ml
    from mustlink_io import pictures

    with np.load(source, allow_pickle=False) as archive:
        image = archive["image"][::shrink, ::shrink]
        shape = image.shape[:2]
        strokes = clicks(archive, shape, brush, shrink)
        drawn = clicks(archive, shape, max(brush, 1 + max(shape) // 250), shrink)
        k = int(archive["n_classes"])
    graph, graph_seconds = common.timed(ml.image_graph, image, radius, n_similar=similar)
    constraints = ml.Constraints.from_labels(strokes.ravel())
    base = {"n_clusters": k, "affinity": "precomputed", "random_state": 0}
    est, seconds = common.timed(ml.CSP(**base, **options).fit, graph, constraints=constraints)
    peak = common.own_peak_bytes()
    before, ncut_seconds = common.timed(ml.NCut(**base).fit, graph)
    figure = pictures.segmentation(
        image,
        drawn,
        before.labels_.reshape(shape),
        est.labels_.reshape(shape),
        titles=("click points", "without them (NCut)", "with them (CSP)"),
    )
    pictures.save(figure, picture)
    known = strokes >= 0
    report = est.report_.to_dict()
    return {
        "pixels": int(strokes.size),
        "entries": int(graph.affinity.nnz),
        "classes": k,
        "labelled": int(known.sum()),
        "graph_seconds": graph_seconds,
        "seconds": seconds,
        "ncut_seconds": ncut_seconds,
        "peak_bytes": peak,
        "kept": report["satisfaction"],
        "sizes": np.bincount(est.labels_[est.labels_ >= 0], minlength=k),
        "choices": report["choices"],
        "status": (report["convergence"] or {}).get("status"),
        "stages": common.stage_table(report),
        "notes": report["notes"],
    }


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=IMAGES, default=["daisy", "crab"])
    parser.add_argument("--brush", type=int, default=0, help="pixels labelled round a click")
    parser.add_argument("--radius", type=float, default=2)
    parser.add_argument("--similar", type=int, default=8, help="look-alikes joined to a pixel")
    parser.add_argument("--shrink", type=int, default=1, help="every s-th pixel, for a quick try")
    parser.add_argument("--subspace", help="auto, exact or a dimension")
    parser.add_argument("--beta", help="auto or a number")
    parser.add_argument("--assign")
    args = parser.parse_args()
    options: dict[str, Any] = {}
    if args.subspace:
        given = args.subspace
        options["subspace"] = int(given) if given.isdigit() else given
    if args.beta:
        options["beta"] = "auto" if args.beta == "auto" else float(args.beta)
    if args.assign:
        options["assign"] = args.assign
    args.out.mkdir(parents=True, exist_ok=True)
    rows, results = [], {}
    for name in args.only:
        source = common.data_file(f"images/{name}.npz")
        if source is None:
            continue
        common.say(name)
        found = common.call(
            "images:segment",
            source=str(source),
            picture=str(args.out / f"{name}.png"),
            brush=args.brush,
            radius=args.radius,
            similar=args.similar,
            shrink=args.shrink,
            options=options,
        )
        results[name] = found
        rows.append(
            (
                name,
                found["pixels"],
                found["labelled"],
                found["graph_seconds"],
                found["seconds"],
                common.gigabytes(found["peak_bytes"]),
                f"{(found['kept'] or {}).get('kept', float('nan')):.3f}",
                " + ".join(f"{s:,}" for s in found["sizes"]),
            )
        )
    if not rows:
        return 0
    common.table(
        f"Click points, radius {args.radius:g}, brush {args.brush}",
        ("image", "pixels", "labelled", "graph, s", "CSP, s", "peak memory", "kept", "sizes"),
        rows,
    )
    for name, found in results.items():
        print(f"\n{name}: {found['choices']}\n  {found['status']}; picture {name}.png")
        for note in found["notes"]:
            print(f"  note: {note}")
    common.write_json(args.out, "images", results)
    if "daisy" in results:
        flower = results["daisy"]
        figures = {"pixels": flower["pixels"], "clicks": flower["labelled"]}
        figures |= {key: flower[key] for key in ("graph_seconds", "seconds")}
        common.record("images", {**figures, "kept": flower["kept"]["kept"]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
