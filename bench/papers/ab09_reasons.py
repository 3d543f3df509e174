"""AB09 Figure 3 as it was printed, and what was established about where ours differs from it."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from .ab09_protocol import METHODS, TEXT, UCI, Folds, Setting

WORSE = 3.0  # points of error by which ours may be above the paper's before it is marked
PAPER = {
    name: dict(zip(METHODS, map(float, row.split()), strict=True))
    for name, row in {
        "Ionosphere": "56.45 48.9 36.21 36.21 42.85 36.21 44.17",
        "Hepatitis": "24.96 23.20 22.24 27.36 22.40 20.48 30.40",
        "Cancer": "9.48 12.37 13.75 11.52 12.55 13.75 9.20",
        "Pima": "34.99 33.65 36.02 33.37 33.26 35.04 33.23",
        "Wine": "37.02 34.55 35.89 34.67 35.04 41.14 33.69",
        "USPS": "6.83 6.47 10.58 6.96 5.22 2.03 2.25",
        "Letter": "10.09 9.46 9.74 9.83 9.75 50.45 9.15",
        "Dif100": "13.48 10.83 14.77 13.86 12.50 7.27 12.58",
        "Dif1000": "16.91 21.64 17.11 15.33 10.12 36.62 43.66",
        "Sam100": "52.38 52.23 45.89 47.16 46.34 64.62 53.73",
        "Sam1000": "42.50 53.36 45.24 45.53 44.34 53.22 61.00",
        "Sim100": "40.07 35.04 33.78 34.59 34.14 58.14 42.01",
    }.items()
}

Means = dict[str, dict[str, float]]  # error by set and method


def reasons(ours: Means) -> tuple[str, str]:
    """Why places are others than the paper's, and where errors are."""

    def gap(sets: Iterable[str], methods: Iterable[str]) -> str:
        chosen = list(methods)
        return f"{fmean(ours[n][m] - PAPER[n][m] for n in sets for m in chosen):+.1f}"

    rest = [m for m in METHODS if m != "LTSALP"]
    uci = [n for n in UCI if n != "Ionosphere"]
    ck, lnp, tik = (gap(TEXT, [m]) for m in ("CK", "LNP", "TIKREG"))
    places = (
        "Places change with how far errors are below the paper's: on UCI sets but Ionosphere "
        f"LTSALP is {gap(uci, ['LTSALP'])} points from it, the other six {gap(uci, rest)}; on text "
        f"CK is {ck}, LNP {lnp} and TIKREG {tik}."
    )
    return places, (
        f"Mean difference in points: Ionosphere {gap(['Ionosphere'], METHODS)}, other UCI sets "
        f"{gap(uci, METHODS)}, text {gap(TEXT, METHODS)}; the paper's graphs are not told."
    )


def worse_cells(found: dict[Setting, Folds], scaled: Means, mass: Means) -> list[str]:
    """Cells with an error more than three points above the paper's, and why."""
    marked, told = [], []
    for one, got in found.items():
        for m, folds in got.items():
            error, paper = fmean(e for e, _ in folds), PAPER[one.name][m]
            if error <= paper + WORSE:
                continue
            runs = [fmean(e for e, _ in folds[i : i + 5]) for i in range(0, len(folds), 5)]
            spread = f"single runs {min(runs):.1f} to {max(runs):.1f}"
            marked.append(f"{one.name} {m} ({error:.1f}, {spread}, against {paper:.1f})")
            if one.name in scaled:
                other = scaled[one.name][m]
                told.append(f"{one.name}: with standardised features {m} has {other:.1f}.")
    if mass:
        shown = ", ".join(f"{n} {row['GF, class mass']:.1f}" for n, row in mass.items())
        told.append(
            "GF: with 30 labels on thousands of points its values are nearly constant, and one "
            f"class takes most of them. With class-mass normalisation: {shown}."
        )
    told.insert(0, f"Worse than the paper by more than 3 points: {', '.join(marked) or 'none'}.")
    return told


def notes(ours: Means, scaled: Means, local: Means) -> list[str]:
    """What was established about the graphs and sets of the paper."""
    told = []
    if "Wine" in scaled:
        told.append(
            "Features: the paper's errors on Wine, 33.7 to 41.1 %, come with raw features "
            f"(LGC here {ours['Wine']['LGC']:.1f}), whose distances are the amount of proline; "
            f"with standardised ones LGC has {scaled['Wine']['LGC']:.1f}. So all UCI sets are raw."
        )
    if "Cancer, original" in ours:
        old = ours["Cancer, original"].values()
        told.append(
            "Cancer: the paper's 9 to 14 % are those of the diagnostic set (569 rows, 30 features)."
            " On the original one (683 rows, 9 features) the same methods have "
            f"{min(old):.1f} to {max(old):.1f}."
        )
    told.append(
        "Hepatitis: 20.48 % is the share of the smaller class in all 155 rows, so the rows with "
        "missing cells are kept (the 80 complete ones have 16.25 %)."
    )
    if local:
        shown = ", ".join(f"{n} {row['TIKREG']:.1f}" for n, row in local.items())
        told.append(
            f"Weights: with locally scaled ones TIKREG has {shown}. Its f ⟂ 1 asks for halves of "
            "equal weight where the classes are not; with one width for all edges, far points "
            "hold the balance, and errors are the paper's."
        )
    told.append(
        "Ionosphere: 5 to 20 neighbours, three scalings and two kinds of weights were tried; none "
        "gave GWEM, GF, TIKREG or LTSALP the paper's 43 to 56 %, which is worse than one class for "
        "all points: 36 %, the paper's LGC, LNP and CK."
    )
    return told
