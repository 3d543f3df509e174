"""A page on which a person answers and sees what follows: sessions, views of them, a server.

Sessions (`node_session`, and that of a picture) know no browser; views are Panel and Bokeh, of the
extra `ui`, imported when a page is made.
"""
