package podfiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/internal/fs"
)

// TerminationFile returns the node's file that is mounted at the container's termination message
// path, or "".
func TerminationFile(s *runtimeapi.ContainerStatus) string {
	path := s.GetAnnotations()[labels.AnnotationTerminationMessagePath]
	if path == "" {
		return ""
	}
	for _, mount := range s.GetMounts() { // a relative path is mounted below the root
		if mount.GetContainerPath() == path || mount.GetContainerPath() == filepath.Join("/", path) {
			return mount.HostPath
		}
	}
	return ""
}

// MakeTerminationFile makes the message file of one instance and returns its path. A repeated
// start of the instance uses the same path.
func (l Layout) MakeTerminationFile(uid types.UID, container string, restartCount int32) (string, error) {
	dir := filepath.Join(l.PodDir(uid), "containers", container)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("termination message file: %w", err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%08x", uint32(restartCount)))
	f, err := fs.OpenPlain(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err == nil {
		err = errors.Join(f.Chmod(0o666), f.Close()) // not subject to the umask
	}
	if err != nil {
		return "", fmt.Errorf("termination message file: %w", err)
	}
	return path, nil
}

// RemoveTerminationFile removes the message file of a container, if it is below the pod's
// directory.
func (l Layout) RemoveTerminationFile(uid types.UID, s *runtimeapi.ContainerStatus) error {
	path := TerminationFile(s)
	if path == "" || l.PodDir == nil {
		return nil
	}
	prefix := filepath.Join(l.PodDir(uid), "containers") + string(filepath.Separator)
	if !strings.HasPrefix(filepath.Clean(path), prefix) {
		return nil
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("termination message file: %w", err)
	}
	return nil
}
