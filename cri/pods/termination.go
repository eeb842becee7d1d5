package pods

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/logs"
)

// How much of a termination message is read, from the file and from the log.
const (
	maxMessageBytes    = 4096
	maxMessageLogLines = 80
	maxMessageLogBytes = 2048
)

// terminationMessage reads what an exited container left behind: its message
// file, or, if it asked for that and failed, the end of its log. What is not UTF-8
// is replaced, as the API server would do: else the status that was written and the
// one that was read back would differ for ever.
func terminationMessage(s *runtimeapi.ContainerStatus) string {
	return strings.ToValidUTF8(leftMessage(s), "\uFFFD")
}

func leftMessage(s *runtimeapi.ContainerStatus) string {
	message := ""
	if path := terminationFile(s); path != "" {
		b, err := readTail(path, maxMessageBytes)
		if err != nil && !os.IsNotExist(err) {
			return fmt.Sprintf("Error on reading termination message: %v", err)
		}
		message = string(b)
	}
	policy := v1.TerminationMessagePolicy(s.Annotations[AnnotationTerminationMessagePolicy])
	fallBack := policy == v1.TerminationMessageFallbackToLogsOnError && s.ExitCode != 0 && s.Reason != "ContainerCannotRun"
	if message != "" || !fallBack || s.LogPath == "" {
		return message
	}
	tail, err := logs.Tail(s.LogPath, maxMessageLogLines, maxMessageLogBytes)
	if err != nil {
		return ""
	}
	return tail
}

// terminationFile is the file on the node that is mounted where the container
// writes its message.
func terminationFile(s *runtimeapi.ContainerStatus) string {
	path := s.GetAnnotations()[AnnotationTerminationMessagePath]
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

// readTail returns the last n bytes of a regular file. It never blocks on what
// is none.
func readTail(path string, n int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	start := max(0, info.Size()-n)
	return io.ReadAll(io.NewSectionReader(f, start, n))
}

// makeTerminationFile makes the message file of one instance and returns its
// path. The name follows from the instance, so that a repeated start finds the
// same file.
func (m *Manager) makeTerminationFile(uid types.UID, container string, restartCount int32) (string, error) {
	dir := filepath.Join(m.cfg.PodDir(uid), "containers", container)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("termination message file: %w", err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%08x", uint32(restartCount)))
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		return "", fmt.Errorf("termination message file: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // whatever the umask is
		return "", fmt.Errorf("termination message file: %w", err)
	}
	return path, nil
}

// removeTerminationFile removes the message file of a container, if it is one of
// ours.
func (m *Manager) removeTerminationFile(uid types.UID, s *runtimeapi.ContainerStatus) error {
	path := terminationFile(s)
	if path == "" || m.cfg.PodDir == nil {
		return nil
	}
	prefix := filepath.Join(m.cfg.PodDir(uid), "containers") + string(filepath.Separator)
	if !strings.HasPrefix(filepath.Clean(path), prefix) {
		return nil
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("termination message file: %w", err)
	}
	return nil
}
