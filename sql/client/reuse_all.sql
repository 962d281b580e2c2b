SELECT p.* FROM {pictures} p
