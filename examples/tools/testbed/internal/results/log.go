package results

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Log collects the results of a whole run.
type Log struct {
	repeat func(pkg, test string) string

	mu       sync.Mutex
	out      io.Writer
	failures []failure
	counts   map[string]int // of top-level tests, by "pass", "fail" and "skip"
	tests    []timing
	packages map[string]timing
}

// failure is a failed test, or a failed package if test is empty.
type failure struct {
	pkg, test string
	seconds   float64
	listed    bool // in the summary; false for a test whose subtests are listed
	crashed   bool // the program ended before the test did
}

// New returns a log that prints to out. repeat returns the command that runs one test of a package,
// or the whole package if test is empty.
func New(out io.Writer, repeat func(pkg, test string) string) *Log {
	return &Log{repeat: repeat, out: out, counts: map[string]int{}, packages: map[string]timing{}}
}

func (l *Log) print(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprint(l.out, text)
}

// ended counts a test and records its time.
func (l *Log) ended(pkg string, e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !strings.Contains(e.Test, "/") {
		l.counts[e.Action]++
	}
	l.tests = append(l.tests, timing{pkg: pkg, test: e.Test, wall: time.Duration(e.Elapsed * float64(time.Second))})
}

// fail prints a failure with its output.
func (l *Log) fail(f failure, output []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.crashed && f.listed {
		l.counts["fail"]++
	}
	fmt.Fprintf(l.out, "--- FAIL: %s (%.2fs)\n%s", f.name(), f.seconds, strings.Join(output, ""))
	l.failures = append(l.failures, f)
}

func (f failure) name() string { return strings.TrimSpace(f.pkg + " " + f.test) }

// Failed reports whether a test or a package has failed.
func (l *Log) Failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.failures) > 0
}

// summaryLines bounds the list of failures.
const summaryLines = 10

// Summary prints each failure with the command that repeats it, and the number of tests.
func (l *Log) Summary() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for _, f := range l.failures {
		if f.listed {
			lines = append(lines, fmt.Sprintf("FAIL %s: %s", f.name(), l.repeat(f.pkg, f.test)))
		}
	}
	if more := len(lines) - summaryLines; more > 0 {
		lines = append(lines[:summaryLines-1], fmt.Sprintf("and %d more, above", more+1))
	}
	if len(lines) > 0 {
		fmt.Fprintf(l.out, "\n%s\n", strings.Join(lines, "\n"))
	}
	fmt.Fprintf(l.out, "\n%d passed, %d failed, %d skipped\n", l.counts["pass"], l.counts["fail"], l.counts["skip"])
}
