package syncloop_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write the actual events into the scripts")

// TestScripts plays the scripts of the loop's scenarios, L1 to L15 of the lifecycle contract (L6,
// L7 and L8: restarts and kills by housekeeping), and others. The Loop, the default handler, the
// pod workers and a Merger are real, the syncer is scripted, and all run in a bubble. A script
// consists of paragraphs: commands (see commands_test.go), a line ----, and the expected events.
// With -rewrite the actual events replace the expected ones, for review as a difference.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(data), "# "), "the first line describes the script")
			got := play(t, string(data))
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(data), got)
		})
	}
}

// play plays a script and returns it with the actual events.
func play(t *testing.T, script string) string {
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		defer n.close()
		for i, paragraph := range strings.Split(strings.TrimSpace(script), "\n\n") {
			if i > 0 {
				out.WriteByte('\n')
			}
			before, _, _ := strings.Cut(paragraph+"\n", "----\n")
			out.WriteString(before)
			events, commands := "", 0
			for line := range strings.Lines(before) {
				if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
					events += n.command(line)
					commands++
				}
			}
			if commands > 0 {
				out.WriteString("----\n" + events)
			}
		}
	})
	return out.String()
}

// log records events. It groups the lines of one instant by subject, the loop's own lines first,
// because pods are handled concurrently.
type log struct {
	mu    sync.Mutex
	begin time.Time
	lines []line
}

type line struct {
	at    time.Duration
	about string
	text  string
}

func (l *log) note(about, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line{time.Since(l.begin), about, fmt.Sprintf(format, args...)})
}

// take returns the lines since the previous call.
func (l *log) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortStableFunc(l.lines, func(a, b line) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return strings.Compare(a.about, b.about)
	})
	var out strings.Builder
	for _, line := range l.lines {
		fmt.Fprintf(&out, "%v %s\n", line.at.Round(time.Millisecond), line.text)
	}
	l.lines = nil
	return out.String()
}
