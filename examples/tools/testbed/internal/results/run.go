package results

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// run is one execution of a package's test program.
type run struct {
	log         *Log
	name, label string
	tests       map[string]*test // by name; "" is the package itself
	ended       bool
}

type test struct {
	output []string
	ended  bool
	failed bool
}

// keptLines is the number of last output lines that are kept per test.
const keptLines = 300

var (
	// framing matches the lines of the test runner. logged matches log lines below the level of an
	// error.
	framing = regexp.MustCompile(`^\s*(=== (RUN|PAUSE|CONT|NAME)|--- (PASS|FAIL|SKIP): )|^(PASS|FAIL|ok|exit status)\b`)
	logged  = regexp.MustCompile(`\blevel=(DEBUG|INFO|WARN)\b|^\s*(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d )?(DEBUG|INFO|WARN) |^\s*[IW]\d{4} \d\d:`)
)

func (r *run) add(e event) {
	t := r.tests[e.Test]
	if t == nil {
		t = &test{}
		r.tests[e.Test] = t
	}
	switch e.Action {
	case "output":
		t.add(e.Output)
	case "pass", "skip", "fail":
		t.ended, t.failed = true, e.Action == "fail"
		if e.Test == "" {
			r.end(e)
			return
		}
		r.log.ended(r.name, e)
		if t.failed {
			r.fail(e.Test, e.Elapsed)
		}
		t.output = nil
	}
}

func (t *test) add(line string) {
	if framing.MatchString(line) || logged.MatchString(line) || strings.TrimSpace(line) == "" {
		return
	}
	t.output = append(t.output, line)
	if len(t.output) > 2*keptLines {
		t.output = slices.Clone(t.output[len(t.output)-keptLines:])
	}
}

// fail reports a failed test, except a test that failed only through its subtests.
func (r *run) fail(name string, seconds float64) {
	t := r.tests[name]
	below := func(other string) bool { return strings.HasPrefix(other, name+"/") && r.tests[other].failed }
	nested := slices.ContainsFunc(slices.Collect(maps.Keys(r.tests)), below)
	if nested && len(t.output) == 0 {
		return
	}
	r.log.fail(failure{pkg: r.name, test: name, seconds: seconds, listed: !nested}, t.output)
}

// end reports the end of the package. A package that failed without a failed test crashed, was
// killed or did not compile. Then its running tests are the failures.
func (r *run) end(e event) {
	r.ended = true
	if e.Action == "fail" {
		r.crash(e)
	}
	word, output := "ok  ", r.tests[""].output
	switch {
	case e.Action == "fail":
		word = "FAIL"
	case e.Action == "skip" || noTests(output):
		return
	}
	r.log.print(strings.TrimSpace(fmt.Sprintf("%s\t%s\t%.3fs\t%s", word, r.name, e.Elapsed, r.label)) + "\n")
}

func noTests(output []string) bool {
	return slices.ContainsFunc(output, func(line string) bool { return strings.HasPrefix(line, "?") })
}

func (r *run) crash(e event) {
	var running []string
	failed := false
	for _, name := range slices.Sorted(maps.Keys(r.tests)) {
		t := r.tests[name]
		failed = failed || name != "" && t.failed
		if name != "" && !t.ended {
			running = append(running, name)
		}
	}
	output := r.tests[""].output
	for _, name := range running {
		parent := slices.ContainsFunc(running, func(other string) bool { return strings.HasPrefix(other, name+"/") })
		if parent && len(r.tests[name].output) == 0 {
			continue
		}
		r.log.fail(failure{pkg: r.name, test: name, seconds: e.Elapsed, listed: !parent, crashed: true}, slices.Concat(r.tests[name].output, output))
		output = nil
	}
	if len(running) == 0 && !failed {
		r.log.fail(failure{pkg: r.name, test: r.label, seconds: e.Elapsed, listed: true, crashed: true}, output)
	} else if len(output) > 0 {
		r.log.print(strings.Join(output, ""))
	}
}
