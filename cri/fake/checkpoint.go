package fake

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CheckpointContainer writes a tar archive about a running container to the request's location, if
// Config.Checkpoints is set. The archive has no state of the program. Otherwise it fails like
// containerd on a node without CRIU.
func (rt *Runtime) CheckpointContainer(ctx context.Context, request *runtimeapi.CheckpointContainerRequest) error {
	if err := rt.enter(ctx, "CheckpointContainer", request); err != nil {
		return err
	}
	id, location := request.GetContainerId(), request.GetLocation()
	if !rt.cfg.Checkpoints {
		return status.Errorf(codes.Unknown, "CRIU binary not found or too old (<31600). Failed to checkpoint container %q: "+
			`failed to check for criu version: exec: "criu": executable file not found in $PATH`, id)
	}
	rt.mu.RLock()
	c := rt.store.containers[id]
	var files map[string]any
	if c != nil && c.running() {
		files = c.dump(rt.cfg.Name, rt.now())
	}
	rt.mu.RUnlock()
	switch {
	case c == nil:
		return noContainer(id)
	case files == nil:
		return status.Errorf(codes.FailedPrecondition, "container %q is not running", id)
	case !filepath.IsAbs(location):
		return status.Errorf(codes.InvalidArgument, "checkpoint location %q is not an absolute path", location)
	}
	archive, err := archive(files, rt.now())
	if err == nil {
		err = os.WriteFile(location, archive, 0o600)
	}
	if err != nil {
		return status.Errorf(codes.Unknown, "failed to checkpoint container %q: %v", id, err)
	}
	return nil
}

// dump returns the content of a checkpoint, by file name.
func (c *container) dump(runtime string, now time.Time) map[string]any {
	tag, ref := c.image.names()
	return map[string]any{
		"config.dump": map[string]any{
			"id": c.id, "name": c.name.String(), "rootfsImageName": cmp.Or(tag, c.config.GetImage().GetImage()), "rootfsImageRef": ref,
			"runtime": runtime, "createdTime": time.Unix(0, c.createdAt).UTC(), "checkpointedTime": now.UTC(),
		},
		"spec.dump":   map[string]any{"args": commandLine(c.config), "env": c.env, "cwd": c.config.GetWorkingDir()},
		"status.dump": map[string]any{"createdAt": c.createdAt, "startedAt": c.startedAt, "labels": c.config.GetLabels()},
	}
}

func archive(files map[string]any, now time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range []string{"config.dump", "spec.dump", "status.dump"} {
		content, err := json.Marshal(files[name])
		if err != nil {
			return nil, err
		}
		header := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: now}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
