package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/kubelet/server"
)

func podWithLogs(dir string, restarts int32, containers ...string) server.PodReport {
	r := server.PodReport{LogDir: dir}
	for _, name := range containers {
		r.Containers = append(r.Containers, server.ContainerReport{Name: name, Restarts: restarts})
	}
	return r
}

func writeLog(t *testing.T, dir, file string, lines ...string) {
	t.Helper()
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "2026-01-01T00:00:00.000000000Z stdout F %s\n", line)
	}
	put(t, dir, file, b.String())
}

// The last lines of each container come from its newest run, or from the run before if the newest
// has not written any.
func TestLastLines(t *testing.T) {
	dir, l := t.TempDir(), newLineReader()
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprint("line ", i))
	}
	writeLog(t, dir, "many/2.log", many...)
	writeLog(t, dir, "fresh/1.log", "why it crashed")
	put(t, dir, "fresh/2.log", "")
	put(t, dir, "silent/2.log", "")
	writeLog(t, dir, "waits/1.log", "before")
	writeLog(t, dir, "long/2.log", strings.Repeat("x", 2*lastBytes), strings.Repeat("y", 2*lastBytes)+"end")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder", "2.log"), 0o700))
	got := map[string]server.LogReport{}
	for _, r := range l.read(t.Context(), podWithLogs(dir, 2, "many", "fresh", "waits", "none", "silent", "long", "folder")) {
		got[r.Container] = r
	}
	require.Equal(t, server.LogReport{Container: "many", Lines: many[80:]}, got["many"])
	require.Equal(t, server.LogReport{Container: "fresh", Lines: []string{"why it crashed"}, Previous: true}, got["fresh"])
	require.Equal(t, server.LogReport{Container: "waits", Lines: []string{"before"}, Previous: true}, got["waits"])
	require.Equal(t, server.LogReport{Container: "none", Missing: true}, got["none"])
	require.Equal(t, server.LogReport{Container: "silent"}, got["silent"])
	require.True(t, got["long"].Cut)
	require.LessOrEqual(t, len(strings.Join(got["long"].Lines, "\n")), lastBytes)
	require.True(t, strings.HasSuffix(got["long"].Lines[len(got["long"].Lines)-1], "end"))
	require.Contains(t, got["folder"].Error, "not a regular file")

	require.Len(t, l.read(t.Context(), podWithLogs(dir, 2, make([]string, 100)...)), lastContainers)
	require.Empty(t, l.read(t.Context(), podWithLogs("", 0, "c")))
	require.Empty(t, l.read(t.Context(), podWithLogs(dir, 0)))
}

// A hanging file system delays a page until the end of its context, starts one read per pod, and
// does not delay other pods.
func TestLastLinesOnAHangingFileSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var reads atomic.Int32
		l := lineReader{tail: func(_ context.Context, path string, _ int, _ int64) (string, error) {
			if strings.HasPrefix(path, "/hangs/") {
				reads.Add(1)
				<-release
			}
			return "a line\n", nil
		}}
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			begin := time.Now()
			got := l.read(ctx, podWithLogs("/hangs", 0, "a", "b"))
			cancel()
			require.Equal(t, time.Second, time.Since(begin))
			require.Len(t, got, 2)
			require.Contains(t, got[1].Error, "the log folder does not respond")
		}
		require.EqualValues(t, 1, reads.Load())
		require.Equal(t, []server.LogReport{{Container: "c", Lines: []string{"a line"}}}, l.read(t.Context(), podWithLogs("/other", 0, "c")))
		close(release)
		synctest.Wait()
		require.Empty(t, l.calls.Running())
	})
	l := lineReader{tail: func(context.Context, string, int, int64) (string, error) { return "", errors.New("input/output error") }}
	require.Equal(t, []server.LogReport{{Container: "c", Error: "input/output error"}}, l.read(t.Context(), podWithLogs("/x", 0, "c")))
}
