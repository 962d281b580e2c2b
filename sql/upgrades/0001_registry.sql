-- The owner role, the two schemas and the registry tables. Runs once; changes to it are new files.
DO $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = 'dbinfer_owner') THEN
    CREATE ROLE dbinfer_owner NOLOGIN;
    COMMENT ON ROLE dbinfer_owner IS 'owns the objects of dbinfer; its members deploy and manage models';
  END IF;
END $$;

CREATE SCHEMA dbinfer AUTHORIZATION dbinfer_owner;
COMMENT ON SCHEMA dbinfer IS 'image inference with OpenVINO where the rows are: SELECT dbinfer.predict(img) FROM images';
GRANT USAGE ON SCHEMA dbinfer TO PUBLIC;

CREATE SCHEMA dbinfer_private AUTHORIZATION dbinfer_owner;
COMMENT ON SCHEMA dbinfer_private IS 'registry tables and helpers of dbinfer; nobody but its owner has USAGE';

-- What follows belongs to the owner role, so that definer functions of it can read and write the tables.
SET LOCAL ROLE dbinfer_owner;

CREATE TYPE dbinfer.classification AS (class integer, label text, score real);
COMMENT ON TYPE dbinfer.classification IS 'class number, its label (NULL without labels) and its score';
CREATE TYPE dbinfer.image_facts AS (format text, width integer, height integer, channels integer, bytes bigint);
COMMENT ON TYPE dbinfer.image_facts IS 'what the header of an image says; width and height after EXIF orientation';

CREATE TABLE dbinfer_private.upgrade (
  name text PRIMARY KEY,
  sha256 text NOT NULL,
  applied_at timestamptz NOT NULL
) /* greenplum: DISTRIBUTED REPLICATED */;
COMMENT ON TABLE dbinfer_private.upgrade IS 'schema changes that were applied, each frozen by its checksum';

CREATE TABLE dbinfer_private.setting (
  name text PRIMARY KEY,
  value text NOT NULL
) /* greenplum: DISTRIBUTED REPLICATED */;
COMMENT ON TABLE dbinfer_private.setting IS 'settings of the runtime: venv, cache_dir, threads, max_models, limits, default_model';

CREATE TABLE dbinfer_private.runtime_module (
  name text PRIMARY KEY,
  source text NOT NULL
) /* greenplum: DISTRIBUTED REPLICATED */;
COMMENT ON TABLE dbinfer_private.runtime_module IS 'Python source that backends run';

CREATE TABLE dbinfer_private.model (
  name text PRIMARY KEY,
  active integer
) /* greenplum: DISTRIBUTED REPLICATED */;
COMMENT ON TABLE dbinfer_private.model IS 'models and the version that a plain name means';

CREATE TABLE dbinfer_private.model_version (
  id integer PRIMARY KEY,
  model text NOT NULL,
  version integer NOT NULL,
  source_digest text NOT NULL,
  xml_digest text NOT NULL,
  bin_digest text NOT NULL,
  manifest jsonb NOT NULL,
  size bigint NOT NULL,
  created_at timestamptz NOT NULL,
  created_by text NOT NULL
) /* greenplum: DISTRIBUTED REPLICATED */;
COMMENT ON TABLE dbinfer_private.model_version IS 'deployed versions: manifest and digests; never changed after deploy';

CREATE TABLE dbinfer_private.model_part (
  version_id integer NOT NULL,
  kind text NOT NULL,
  part integer NOT NULL,
  digest text NOT NULL,
  PRIMARY KEY (version_id, kind, part)
) /* greenplum: DISTRIBUTED REPLICATED */;
COMMENT ON TABLE dbinfer_private.model_part IS 'which parts make up the xml and the bin file of a version, in order';

CREATE TABLE dbinfer_private.part (
  digest text PRIMARY KEY,
  data bytea NOT NULL
) /* greenplum: DISTRIBUTED REPLICATED */;
ALTER TABLE dbinfer_private.part ALTER COLUMN data SET STORAGE EXTERNAL;
COMMENT ON TABLE dbinfer_private.part IS 'parts of model files, named by sha256, shared by versions';

CREATE TABLE dbinfer_private.alias (
  model text NOT NULL,
  alias text NOT NULL,
  version integer NOT NULL,
  PRIMARY KEY (model, alias)
) /* greenplum: DISTRIBUTED REPLICATED */;
COMMENT ON TABLE dbinfer_private.alias IS 'second names of versions: digits@production';

CREATE TABLE dbinfer_private.model_grant (
  model text NOT NULL,
  role text NOT NULL,
  PRIMARY KEY (model, role)
) /* greenplum: DISTRIBUTED REPLICATED */;
COMMENT ON TABLE dbinfer_private.model_grant IS 'who may run a model; role names, so that a backup carries them; public means everybody';

CREATE SEQUENCE dbinfer_private.version_id AS integer;

RESET ROLE;
