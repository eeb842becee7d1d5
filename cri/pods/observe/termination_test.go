package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/labels"
)

// C46: the message is the end of the file. If the policy allows it, the container failed, and its
// file is empty, the message is the end of the log.
func TestMessageLeftBehind(t *testing.T) {
	lines := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "2026-01-01T00:00:00Z stdout F line %02d\n", i)
		}
		return b.String()
	}
	const fallBack = "FallbackToLogsOnError"
	for _, tc := range []struct {
		name   string
		policy string
		file   string // "-" for none
		log    string // "-" for no path
		exit   int32
		reason string
		want   string
	}{
		{"file", "File", "bye", lines(1), 1, "Error", "bye"},
		{"file of a success", "File", "bye", lines(1), 0, "Completed", "bye"},
		{"end of a long file", "File", strings.Repeat("a", 5000) + "b", "", 0, "", strings.Repeat("a", 4095) + "b"},
		{"no file", "File", "-", lines(1), 1, "Error", ""},
		{"C46 empty file", fallBack, "", lines(2), 1, "Error", "line 00\nline 01\n"},
		{"C46 no file", fallBack, "-", lines(1), 1, "Error", "line 00\n"},
		{"C46 success", fallBack, "", lines(1), 0, "Completed", ""},
		{"C46 the file comes first", fallBack, "bye", lines(1), 1, "Error", "bye"},
		{"C46 it never ran", fallBack, "", lines(1), 128, "ContainerCannotRun", ""},
		{"C46 no log", fallBack, "", "", 1, "Error", ""},
		{"C46 no path of a log", fallBack, "", "-", 1, "Error", ""},
		{"no UTF-8", "File", "a\xffb\xc3", "", 0, "", "a\uFFFDb\uFFFD"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file, log := filepath.Join(t.TempDir(), "message"), filepath.Join(t.TempDir(), "0.log")
			if tc.file != "-" {
				require.NoError(t, os.WriteFile(file, []byte(tc.file), 0o600))
			}
			switch tc.log {
			case "":
			case "-":
				log = ""
			default:
				require.NoError(t, os.WriteFile(log, []byte(tc.log), 0o600))
			}
			require.Equal(t, tc.want, terminationMessage(t.Context(), ended(tc.policy, file, log, tc.exit, tc.reason)))
		})
	}
}

func ended(policy, file, log string, exit int32, reason string) *runtimeapi.ContainerStatus {
	return &runtimeapi.ContainerStatus{
		State: runtimeapi.ContainerState_CONTAINER_EXITED, ExitCode: exit, Reason: reason, LogPath: log,
		Annotations: map[string]string{
			labels.AnnotationTerminationMessagePath: "/dev/termination-log", labels.AnnotationTerminationMessagePolicy: policy,
		},
		Mounts: []*runtimeapi.Mount{{ContainerPath: "/data", HostPath: "/nowhere"}, {ContainerPath: "/dev/termination-log", HostPath: file}},
	}
}

// C46: at most 80 lines and at most 2048 bytes of the log.
func TestTerminationMessageFromLogIsBounded(t *testing.T) {
	log := filepath.Join(t.TempDir(), "0.log")
	for name, tc := range map[string]struct {
		width       int
		lines, size int
	}{"lines": {5, 80, 80 * 6}, "bytes": {99, -1, 2048}} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for i := range 200 {
				fmt.Fprintf(&b, "2026-01-01T00:00:00Z stderr F %0*d\n", tc.width, i)
			}
			require.NoError(t, os.WriteFile(log, []byte(b.String()), 0o600))
			got := terminationMessage(t.Context(), ended("FallbackToLogsOnError", "/nowhere/message", log, 1, "Error"))
			require.Len(t, got, tc.size)
			require.True(t, strings.HasSuffix(got, "199\n"))
			if tc.lines > 0 {
				require.Equal(t, tc.lines, strings.Count(got, "\n"))
			}
		})
	}
}

// A container may replace the file. Reading does not block on a pipe, and does not follow a link.
func TestTerminationFileIsNoFile(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte("secret"), 0o600))
	for name, plant := range map[string]func(path string) error{
		"pipe":            func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":            func(path string) error { return os.Symlink(other, path) },
		"link to nowhere": func(path string) error { return os.Symlink("nowhere", path) },
		"folder":          func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		path := filepath.Join(t.TempDir(), "message")
		require.NoError(t, plant(path), name)
		got := terminationMessage(t.Context(), ended("File", path, "", 1, "Error"))
		require.Equal(t, "Error on reading termination message: "+path+" is not a regular file", got, name)
	}
}

// The log does not replace a message that exists but cannot be read.
func TestTerminationFileCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "0.log")
	require.NoError(t, os.WriteFile(log, []byte("2026-01-01T00:00:00Z stdout F line\n"), 0o600))
	got := terminationMessage(t.Context(), ended("FallbackToLogsOnError", filepath.Join(log, "message"), log, 1, "Error"))
	require.Contains(t, got, "Error on reading termination message: ")
	require.Contains(t, got, "not a directory")
}

// Reading closes the file also if it is not a regular file.
func TestReadTailCloses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "message")
	require.NoError(t, os.WriteFile(file, []byte("bye"), 0o600))
	b, err := readTail(file, 10)
	require.NoError(t, err)
	require.Equal(t, "bye", string(b))
	_, err = readTail(dir, 10)
	require.ErrorContains(t, err, "not a regular file")
	open, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, link := range open {
		target, _ := os.Readlink(link)
		require.NotContains(t, target, dir)
	}
}
