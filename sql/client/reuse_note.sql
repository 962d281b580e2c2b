-- Each image is read once for its digest.
INSERT INTO {pictures} {rows}
