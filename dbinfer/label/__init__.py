"""label: a page on this machine on which a person labels rows with the keyboard; each answer is a row."""

from __future__ import annotations

from dbinfer.label.options import LabelOptions, LabelReport

__all__ = ["LabelOptions", "LabelReport", "label"]


def label(table: str = "images", options: LabelOptions | None = None, dsn: str | None = None) -> LabelReport:
    """Serve a page that shows the rows one after the other with the model's proposal, until the person has finished.

    The page is for this machine alone, and for who has its address, which holds a token. Each answer is committed at
    once: a row of the key, the label (or the boxes), the proposal, who and when. Rows that have one are not asked for
    again. Ctrl-C (KeyboardInterrupt) ends it, too.

    Args:
        table: the images, as a user writes the name.

    Raises:
        DataError: a table or column is not there, the table of labels is another one or another user's, or nothing is
            left to be labelled.
        UsageError: names that are none, or an address that other machines reach.
    """
    # OpenCV and numpy are not for who only imports dbinfer
    from dbinfer.label.serving import serve
    from dbinfer.label.work import Work

    options = options or LabelOptions()
    work = Work.begin(table, options, dsn)
    serve(work, options)
    return work.report()
