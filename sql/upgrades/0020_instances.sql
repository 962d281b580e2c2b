-- What dbinfer.instances returns for each object.
CREATE TYPE dbinfer.instance AS (label text, class integer, score real, x real, y real, width real, height real, mask bytea, points real[]);
COMMENT ON TYPE dbinfer.instance IS 'one object, as dbinfer.detection, with its mask (a PNG as large as dbinfer.crop cuts the box; NULL where the model has none), or its keypoints ({{x, y, score}, ...} in pixels of the image as shown; NULL where it has none)';
