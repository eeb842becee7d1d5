package critest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/logs"
)

func logCases() []testCase {
	return []testCase{
		{"each stream's lines are in the log under its name", func(e *env) {
			byStream := map[logs.Stream][]string{}
			for _, line := range e.logOf(writesBoth) {
				require.False(e.t, line.Partial)
				byStream[line.Stream] = append(byStream[line.Stream], string(line.Content))
			}
			require.Equal(e.t, map[logs.Stream][]string{logs.Stdout: {"out"}, logs.Stderr: {"err"}}, byStream)
		}},
		{"empty lines are lines", func(e *env) {
			lines := e.logOf(blanks)
			require.Equal(e.t, []string{"", "", "x", ""}, contents(lines))
			for _, line := range lines {
				require.False(e.t, line.Partial)
			}
		}},
		{"a long line comes in parts, and only the last has the tag F", func(e *env) {
			lines := e.logOf(long)
			require.Greater(e.t, len(lines), 1)
			for i, line := range lines {
				require.Equal(e.t, i < len(lines)-1, line.Partial)
			}
			require.Equal(e.t, strings.Repeat("x", 40000)+"end", strings.Join(contents(lines), ""))
		}},
		{"a last line without a newline is partial", func(e *env) {
			lines := e.logOf(unended)
			require.Equal(e.t, []string{"a", "bc"}, contents(lines))
			require.False(e.t, lines[0].Partial)
			require.True(e.t, lines[1].Partial)
		}},
		{"bytes come as they were written", func(e *env) {
			require.Equal(e.t, []string{"\xff\x00\x01\r.", "\t \x80"}, contents(e.logOf(binary)))
		}},
		{"a line written in pieces is one line", func(e *env) {
			lines := e.logOf(slow)
			require.Equal(e.t, []string{"abcd"}, contents(lines))
			require.False(e.t, lines[0].Partial)
		}},
		{"a terminal's output is all stdout", func(e *env) {
			p := e.newPod()
			config := e.container("main", writesBoth.command()...)
			config.Tty = true
			e.exited(e.start(p.id, config, p.config))
			lines := e.lines(p, "main")
			require.Equal(e.t, []string{"out", "err"}, contents(lines))
			for _, line := range lines {
				require.Equal(e.t, logs.Stdout, line.Stream)
			}
		}},
		{"the log is complete when the container has exited", func(e *env) {
			p := e.newPod()
			for i := range 5 {
				name := fmt.Sprintf("main%d", i)
				id := e.start(p.id, e.container(name, dying.command()...), p.config)
				status := e.exited(id)
				text := e.text(p, name)
				require.Equal(e.t, int32(1), status.GetExitCode())
				require.Len(e.t, text, 2000)
				e.requireNumbered(text)
			}
		}},
		{"timestamps do not decrease", func(e *env) {
			p := e.newPod()
			id := e.start(p.id, e.container("main", dying.command()...), p.config)
			status := e.exited(id)
			last := time.Unix(0, status.GetCreatedAt())
			for _, line := range e.lines(p, "main") {
				require.False(e.t, line.Timestamp.Before(last), "%v after %v", line.Timestamp, last)
				last = line.Timestamp
			}
		}},
		{"a renamed log continues in a new file after ReopenContainerLog", func(e *env) {
			p := e.newPod()
			id := e.start(p.id, e.container("main", steady.command()...), p.config)
			path := filepath.Join(p.config.GetLogDirectory(), "main.log")
			var rotated []string
			for i := range 4 {
				e.eventually("more lines", func() bool { return len(e.lines(p, "main")) > 10 })
				rotated = append(rotated, fmt.Sprintf("%s.%d", path, i))
				require.NoError(e.t, os.Rename(path, rotated[i]))
				require.NoError(e.t, e.Runtime.ReopenContainerLog(e.ctx, id))
				require.FileExists(e.t, path)
			}
			e.eventually("lines in the last file", func() bool { return len(e.lines(p, "main")) > 10 })
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, 0))
			// containerd may write the last lines of a renamed log after its reply.
			var all []string
			for _, file := range rotated {
				raw, err := os.ReadFile(file)
				require.NoError(e.t, err)
				all = append(all, contents(e.parse(raw))...)
			}
			e.requireNumbered(append(all, e.text(p, "main")...))
		}},
		{"reopening a log that was not renamed continues it", func(e *env) {
			p := e.newPod()
			id := e.start(p.id, e.container("main", steady.command()...), p.config)
			for range 3 {
				before := len(e.lines(p, "main"))
				require.NoError(e.t, e.Runtime.ReopenContainerLog(e.ctx, id))
				e.eventually("more lines", func() bool { return len(e.lines(p, "main")) > before+10 })
			}
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, 0))
			// containerd writes the lines before and after a call from two goroutines.
			text := e.text(p, "main")
			slices.SortFunc(text, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
			e.requireNumbered(text)
		}},
		{"a log can be reopened only while its container runs", func(e *env) {
			p := e.newPod()
			id := e.create(p.id, e.container("main", writesBoth.command()...), p.config)
			e.refused(e.Runtime.ReopenContainerLog(e.ctx, id))
			require.NoError(e.t, e.Runtime.StartContainer(e.ctx, id))
			e.exited(id)
			e.refused(e.Runtime.ReopenContainerLog(e.ctx, id))
			require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, id))
			e.notFound(e.Runtime.ReopenContainerLog(e.ctx, id))
		}},
		{"without log_path there is no log", func(e *env) {
			p := e.newPod()
			config := e.container("main", writesBoth.command()...)
			config.LogPath = ""
			status := e.exited(e.start(p.id, config, p.config))
			require.Empty(e.t, status.GetLogPath())
			require.Equal(e.t, int32(3), status.GetExitCode())
			files, err := os.ReadDir(p.config.GetLogDirectory())
			require.NoError(e.t, err)
			require.Empty(e.t, files)
		}},
		{"a log's folder is created, and an existing log is appended to", func(e *env) {
			p := e.newPod()
			for i := range 2 {
				config := e.container("main", blanks.command()...)
				config.Metadata.Attempt = uint32(i)
				config.LogPath = "deep/main.log"
				status := e.exited(e.start(p.id, config, p.config))
				require.Equal(e.t, filepath.Join(p.config.GetLogDirectory(), "deep/main.log"), status.GetLogPath())
			}
			require.Equal(e.t, []string{"", "", "x", "", "", "", "x", ""}, e.text(p, "deep/main"))
		}},
		{"two containers with logs in one folder do not mix them", func(e *env) {
			p := e.newPod()
			a := e.start(p.id, e.container("a", blanks.command()...), p.config)
			b := e.start(p.id, e.container("b", dying.command()...), p.config)
			for _, id := range []string{a, b} {
				require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_EXITED, e.exited(id).GetState())
			}
			require.Equal(e.t, []string{"", "", "x", ""}, e.text(p, "a"))
			require.Len(e.t, e.text(p, "b"), 2000)
		}},
	}
}

// lines returns all lines of a container's log. It requires each one to be well-formed.
func (e *env) lines(p livePod, name string) []logs.Line {
	e.t.Helper()
	raw, err := os.ReadFile(filepath.Join(p.config.GetLogDirectory(), name+".log"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(e.t, err)
	return e.parse(raw)
}

func (e *env) parse(raw []byte) []logs.Line {
	e.t.Helper()
	var lines []logs.Line
	for rest := raw; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		if !ended { // a write is in progress
			break
		}
		parsed, err := logs.ParseLine(line)
		require.NoError(e.t, err, "%q", line)
		lines = append(lines, parsed)
		rest = after
	}
	return lines
}

// text returns the contents of a log's lines.
func (e *env) text(p livePod, name string) []string {
	e.t.Helper()
	return contents(e.lines(p, name))
}

func contents(lines []logs.Line) []string {
	var text []string
	for _, line := range lines {
		text = append(text, string(line.Content))
	}
	return text
}

func (e *env) printed(p livePod, name, line string) {
	e.t.Helper()
	e.eventually(name+" prints "+line, func() bool { return slices.Contains(e.text(p, name), line) })
}

// logOf runs a container to its end and returns its log.
func (e *env) logOf(what program) []logs.Line {
	e.t.Helper()
	p := e.newPod()
	e.exited(e.start(p.id, e.container("main", what.command()...), p.config))
	return e.lines(p, "main")
}

// requireNumbered requires the output of steady or dying, from line 0.
func (e *env) requireNumbered(text []string) {
	e.t.Helper()
	for i, line := range text {
		require.Equal(e.t, "line "+strconv.Itoa(i), line)
	}
}
