package podworkerstest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/podwright/podwright/podworkers"
)

// ScriptOptions configure the scripts. The zero value runs them on a syncer whose calls follow
// the script and otherwise succeed at once.
type ScriptOptions struct {
	// Config returns the configuration of the Workers of one script, with the syncer under test.
	// It is called in the script's bubble with the script's t; its runtime and other parts must
	// end in t.Cleanup. The script sets TerminalPodStopped, and OnDue with "option on-due".
	// Without Jitter, pauses have no jitter. Optional: without it all defaults apply, with no
	// syncer under test.
	Config func(t *testing.T) podworkers.Config
	// Running is the argument of Recorder.Running. It is set after Config was called. Optional.
	Running Running
	// Rewrite makes RunScripts write the events into the files instead of comparing them. Review
	// the difference.
	Rewrite bool
}

// RunScripts runs each file that matches pattern (see filepath.Glob) in a subtest. It fails if
// no file matches, the events differ from the file, or a rule of the lifecycle is violated. The
// package documentation describes the files.
func RunScripts(t *testing.T, pattern string, o ScriptOptions) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("podworkerstest: no script matches %q: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := string(data)
			if !strings.HasPrefix(want, "# ") {
				t.Errorf("%s: the first line must be a comment that describes the script", file)
			}
			got := Play(t, want, o)
			switch {
			case got == want:
			case o.Rewrite:
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s: the events differ from the script:\n%s", file, firstDifference(want, got))
			}
		})
	}
}

// Play runs one script in a new bubble and returns it with its events. It fails the test if the
// script is invalid or a rule is violated.
func Play(t *testing.T, script string, o ScriptOptions) string {
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		p := newPlayer(t, o)
		defer p.close()
		for i, b := range parseScript(script) {
			if i > 0 {
				out.WriteByte('\n')
			}
			out.WriteString(b.text)
			if b.commands != nil {
				out.WriteString(separator + "\n" + p.play(b.commands))
			}
		}
	})
	return out.String()
}

const separator = "----"

// block is a paragraph of a script: commands with comments between them, without the events, or
// comments only.
type block struct {
	text     string
	commands []string
}

// parseScript splits a script at empty lines and drops the text below separators.
func parseScript(script string) []block {
	var blocks []block
	for _, paragraph := range strings.Split(script, "\n\n") {
		paragraph = strings.Trim(paragraph, "\n")
		if paragraph == "" {
			continue
		}
		var b block
		for _, line := range strings.Split(paragraph, "\n") {
			if line == separator {
				break
			}
			b.text += line + "\n"
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
				b.commands = append(b.commands, line)
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// firstDifference returns the first line that differs, with the lines before it.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(w) && i < len(g) && w[i] == g[i] {
		i++
	}
	at := func(lines []string, from, to int, prefix string) string {
		var b strings.Builder
		for n := max(from, 0); n < min(to, len(lines)); n++ {
			b.WriteString(prefix + lines[n] + "\n")
		}
		return b.String()
	}
	return at(w, i-6, i, "  ") + at(w, i, i+6, "- ") + at(g, i, i+6, "+ ")
}
