package agent

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/internal/run"
)

// The limits of the log lines of one container, and the number of containers per pod.
const (
	lastLines      = 20
	lastBytes      = 16 << 10
	lastContainers = 20
)

var _ server.LogSource = (*Agent)(nil)

// lineReader reads the ends of logs. A read on a hanging file system continues in the background
// until it returns; meanwhile, no other read of the same pod begins.
type lineReader struct {
	calls run.Calls
	tail  func(ctx context.Context, path string, maxLines int, maxBytes int64) (string, error) // logs.Tail
}

func newLineReader() lineReader { return lineReader{tail: logs.Tail} }

// LastLines returns the ends of the logs of a pod's containers. It returns when ctx is done, also if
// the file system hangs.
func (a *Agent) LastLines(ctx context.Context, pod server.PodReport) []server.LogReport {
	return a.lines.read(ctx, pod)
}

func (l *lineReader) read(ctx context.Context, pod server.PodReport) []server.LogReport {
	if pod.LogDir == "" || len(pod.Containers) == 0 {
		return nil
	}
	containers := pod.Containers[:min(len(pod.Containers), lastContainers)]
	read := make([]server.LogReport, len(containers))
	err := l.calls.Do(ctx, "reading the logs in", pod.LogDir, func() error {
		return run.Guard("reading logs", func() error {
			for i, c := range containers {
				if ctx.Err() != nil {
					return run.EndOf(ctx)
				}
				read[i] = l.container(ctx, pod.LogDir, c)
			}
			return nil
		})
	})
	if err != nil { // the call may still write to read
		read = make([]server.LogReport, len(containers))
		for i, c := range containers {
			read[i] = server.LogReport{Container: c.Name, Error: "the log folder does not respond: " + err.Error()}
		}
	}
	return read
}

// container reads the log of the newest run, or of the run before if the newest has no lines.
func (l *lineReader) container(ctx context.Context, dir string, c server.ContainerReport) server.LogReport {
	r := server.LogReport{Container: c.Name, Missing: true}
	for _, count := range []int32{c.Restarts, c.Restarts - 1} {
		if count < 0 {
			break
		}
		// Tail counts parts of long lines, so its limit is the number of bytes.
		text, err := l.tail(ctx, filepath.Join(dir, request.LogPath(c.Name, count)), 0, lastBytes)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			r.Missing, r.Error = false, err.Error()
			return r
		}
		r.Missing = false
		if r.Lines, r.Cut = lastOf(text); len(r.Lines) > 0 {
			r.Previous = count < c.Restarts
			return r
		}
	}
	return r
}

// lastOf returns the last lines of a text. cut is true if the limit in bytes shortened them.
func lastOf(text string) (lines []string, cut bool) {
	if text = strings.TrimSuffix(text, "\n"); text == "" {
		return nil, false
	}
	lines = strings.Split(strings.ToValidUTF8(text, "\uFFFD"), "\n")
	if len(lines) > lastLines {
		return lines[len(lines)-lastLines:], false
	}
	return lines, len(text) >= lastBytes-1
}
