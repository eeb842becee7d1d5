package e2e_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods"
)

// C40: the logs of a container that writes all the time stay within their size and
// number, and no line that is still there is missing or doubled.
func TestLogsAreRotated(t *testing.T) {
	const config = "containerLogMaxSize: 20Ki\ncontainerLogMaxFiles: 3\ncontainerLogMonitorInterval: 3s"
	onRuntimes(t, config, func(t *testing.T, s *scene) {
		const write = "i=0; while true; do i=$((i+1)); echo line $i; [ $((i%50)) = 0 ] && sleep 0.1; done"
		s.place(t, "writer.yaml", newPod("writer", shell("main", s.images.Busybox, write)))
		pod := s.running(t, "writer")
		folder := filepath.Join(pods.LogDir(s.logs, "default", "writer-"+s.node, pod.UID), "main")
		var lines []int
		wait(t, 25*time.Second, "old logs are compressed and removed", func() (err error) {
			files, err := logFiles(folder)
			if err != nil {
				return err
			}
			if len(files) > 3+1 { // one that is being compressed, for a moment
				t.Fatalf("more files than allowed: %v", files)
			}
			if len(files) < 3 || !strings.HasSuffix(files[0], ".gz") {
				return fmt.Errorf("%v", files)
			}
			if lines, err = readLines(folder, files); err != nil {
				return err // renamed meanwhile
			}
			if lines[0] == 1 {
				return fmt.Errorf("nothing was removed: %v", files)
			}
			return nil
		})
		for i, n := range lines {
			require.Equal(t, lines[0]+i, n, "line %d of %d", i, len(lines))
		}
		p, c, err := s.container("writer", "main")
		require.NoError(t, err)
		require.Zero(t, c.RestartCount, brief(p))
		require.NotEqual(t, v1.PodFailed, p.Status.Phase)
	})
}

// logFiles are the names of a container's logs, the oldest first.
func logFiles(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "0.log") && !strings.HasSuffix(e.Name(), ".tmp") {
			names = append(names, e.Name())
		}
	}
	// The one that is written to is the newest, and its name the shortest.
	slices.SortFunc(names, func(a, b string) int {
		switch {
		case a == "0.log":
			return 1
		case b == "0.log":
			return -1
		}
		return strings.Compare(a, b)
	})
	return names, err
}

// readLines returns the numbers of the lines in the files. A last line that is only
// half written does not count.
func readLines(folder string, files []string) ([]int, error) {
	var out []int
	for _, name := range files {
		f, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		var r io.Reader = f
		if strings.HasSuffix(name, ".gz") {
			if r, err = gzip.NewReader(f); err != nil {
				return nil, err
			}
		}
		lines := bufio.NewReader(r)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			_, text, _ := strings.Cut(line, " F ")
			var n int
			if _, err := fmt.Sscanf(text, "line %d", &n); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", name, line, err)
			}
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no lines in %v", files)
	}
	return out, nil
}
