"""Writes container images without a container engine: an archive in the OCI image layout, of one layer.

The same files give the same bytes: no clock and no owner get into it. `ctr images import`, `podman load` and `docker load`
read it (for docker the archive also has the manifest.json of its own older format).
"""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def _entry(name, mode, kind, size=0, link=""):
    info = tarfile.TarInfo(name)
    info.mode, info.type, info.size, info.linkname = mode, kind, size, link
    return info


class Layer:
    """What a layer holds: folders are made as needed."""

    def __init__(self):
        self.entries = {}

    def _folders(self, path):
        for folder in reversed(Path(path).parents):
            if str(folder) not in (".", "/"):
                self.entries.setdefault(str(folder), (_entry(str(folder), 0o755, tarfile.DIRTYPE), None))

    def folder(self, path, mode=0o755):
        path = path.lstrip("/")
        self._folders(path)
        self.entries[path] = (_entry(path, mode, tarfile.DIRTYPE), None)

    def file(self, path, data, mode=0o644):
        path = path.lstrip("/")
        self._folders(path)
        self.entries[path] = (_entry(path, mode, tarfile.REGTYPE, len(data)), data)

    def copy(self, path, source, mode=None):
        """A file of this machine, symbolic links followed."""
        source = Path(source)
        self.file(path, source.read_bytes(), source.stat().st_mode & 0o777 if mode is None else mode)

    def link(self, path, target):
        path = path.lstrip("/")
        self._folders(path)
        self.entries[path] = (_entry(path, 0o777, tarfile.SYMTYPE, link=target), None)

    def tar(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for path in sorted(self.entries):
                info, data = self.entries[path]
                archive.addfile(info, None if data is None else io.BytesIO(data))
        return out.getvalue()


def write(path, name, layer, entrypoint, env=(), user="", labels=None, architecture="amd64"):
    """An archive at `path` with one image called `name` ("localhost/berth:dev"). Returns the manifest's digest."""
    blobs = {}

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return f"sha256:{digest}"

    def described(media, data, **more):
        return {"mediaType": media, "digest": blob(data), "size": len(data), **more}

    def encoded(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    tar = layer.tar()
    packed = gzip.compress(tar, compresslevel=6, mtime=0)
    settings = {"Entrypoint": list(entrypoint), "Env": list(env), "Labels": labels or {}, "User": user, "WorkingDir": "/"}
    config = encoded({"architecture": architecture, "os": "linux", "config": settings,
                      "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}"]},
                      "history": [{"created_by": "tools/image"}]})
    layer_descriptor, config_descriptor = described(_LAYER, packed), described(_CONFIG, config)
    manifest = encoded({"schemaVersion": 2, "mediaType": _MANIFEST, "config": config_descriptor,
                        "layers": [layer_descriptor]})
    tag = name.rpartition(":")[2]
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
    index = encoded({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [
        described(_MANIFEST, manifest, annotations=names, platform={"architecture": architecture, "os": "linux"})]})

    def place(descriptor):
        return f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"

    docker = encoded([{"Config": place(config_descriptor), "Layers": [place(layer_descriptor)], "RepoTags": [name]}])
    archive = Layer()
    for file, data in {**blobs, "index.json": index, "manifest.json": docker,
                       "oci-layout": encoded({"imageLayoutVersion": "1.0.0"})}.items():
        archive.file(file, data)
    Path(path).write_bytes(archive.tar())
    return f"sha256:{hashlib.sha256(manifest).hexdigest()}"
