package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// verdict is the result of a spec.
type verdict string

const (
	passed  verdict = "ok"
	failed  verdict = "FAIL"
	skipped verdict = "skip" // the spec found a condition missing
	absent  verdict = "-"    // the spec did not run to its end
)

// report is the result of one run of the suite.
type report struct {
	specs    map[string]result
	problems []string // failures outside of specs, such as the suite's set-up
}

type result struct {
	verdict verdict
	message string
	time    time.Duration
}

func readReport(path string) (*report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := parseReport(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// suiteTimeout begins the message of specs that were running at the limit of the suite.
const suiteTimeout = "A suite timeout occurred"

// parseReport parses a JSON report of Ginkgo. It omits specs that were not selected.
func parseReport(text []byte) (*report, error) {
	var suites []struct {
		SpecialSuiteFailureReasons []string
		SpecReports                []struct {
			ContainerHierarchyTexts []string
			LeafNodeType            string
			LeafNodeText            string
			State                   string
			RunTime                 time.Duration
			Failure                 *struct{ Message string }
		}
	}
	if err := json.Unmarshal(text, &suites); err != nil {
		return nil, err
	}
	out := &report{specs: map[string]result{}}
	for _, suite := range suites {
		out.problems = append(out.problems, suite.SpecialSuiteFailureReasons...)
		for _, spec := range suite.SpecReports {
			r := result{verdict: failed, time: spec.RunTime}
			if spec.Failure != nil {
				r.message = summary(spec.Failure.Message)
			}
			switch spec.State {
			case "passed":
				r.verdict = passed
			case "skipped":
				r.verdict = skipped
			case "pending":
				continue
			case "interrupted":
				r.verdict = absent
			}
			if strings.HasPrefix(r.message, suiteTimeout) {
				r.verdict = absent
			}
			switch {
			case spec.LeafNodeType == "It" && (r.verdict != skipped || spec.Failure != nil):
				out.add(strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " "), r)
			case spec.LeafNodeType != "It" && r.verdict == failed:
				out.problems = append(out.problems, spec.LeafNodeType+": "+r.message)
			}
		}
	}
	return out, nil
}

// add adds a result. It numbers specs of the same name.
func (r *report) add(name string, res result) {
	unique := name
	for n := 2; ; n++ {
		if _, ok := r.specs[unique]; !ok {
			r.specs[unique] = res
			return
		}
		unique = fmt.Sprintf("%s #%d", name, n)
	}
}

// keep removes the specs that other lacks.
func (r *report) keep(other *report) {
	for name := range r.specs {
		if _, ok := other.specs[name]; !ok {
			delete(r.specs, name)
		}
	}
}

// summary returns the beginning of a failure's message as one line.
func summary(message string) string {
	const limit = 300
	runes := []rune(strings.Join(strings.Fields(message), " "))
	if len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return string(runes)
}

// table compares two reports.
type table struct {
	ours, upstream *report // upstream is nil if it did not run
	rows           []row
}

type row struct {
	name           string
	ours, upstream result
}

func newTable(ours, upstream *report) table {
	t := table{ours: ours, upstream: upstream}
	names := map[string]bool{}
	for _, r := range []*report{ours, upstream} {
		if r == nil {
			continue
		}
		for name := range r.specs {
			names[name] = true
		}
	}
	for name := range names {
		t.rows = append(t.rows, row{name: name, ours: ours.result(name), upstream: upstream.result(name)})
	}
	slices.SortFunc(t.rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.name, b.name)) })
	return t
}

func (r *report) result(name string) result {
	if r != nil {
		if res, ok := r.specs[name]; ok {
			return res
		}
	}
	return result{verdict: absent}
}

// rank orders the rows: failures of ours alone, then of both, then of upstream alone, then
// specs without a failure.
func (r row) rank() int {
	switch ours, upstream := r.ours.verdict == failed, r.upstream.verdict == failed; {
	case ours && !upstream:
		return 0
	case ours:
		return 1
	case upstream:
		return 2
	case r.ours.verdict != r.upstream.verdict:
		return 3
	}
	return 4
}

// worse reports whether a spec fails with ours that passes with upstream, or that fails without
// upstream, or whether the suite failed outside of the specs.
func (t table) worse() bool {
	if len(t.ours.problems) > 0 && (t.upstream == nil || len(t.upstream.problems) == 0) {
		return true
	}
	return slices.ContainsFunc(t.rows, t.isWorse)
}

func (t table) isWorse(r row) bool {
	return r.ours.verdict == failed && (t.upstream == nil || r.upstream.verdict == passed)
}

// text returns the table of all specs, or of failed ones only, and the counts.
func (t table) text(all bool) string {
	var out strings.Builder
	line := func(ours, upstream, name string) {
		if t.upstream == nil {
			fmt.Fprintf(&out, "%-5s %s\n", ours, name)
			return
		}
		fmt.Fprintf(&out, "%-5s %-9s %s\n", ours, upstream, name)
	}
	line("ours", "upstream", "spec")
	for _, r := range t.rows {
		if !all && r.ours.verdict != failed && r.upstream.verdict != failed {
			continue
		}
		name := r.name
		if all {
			name += fmt.Sprintf(" (%.1f s, %.1f s)", r.ours.time.Seconds(), r.upstream.time.Seconds())
		}
		line(string(r.ours.verdict), string(r.upstream.verdict), name)
		if message := cmp.Or(r.ours.message, r.upstream.message); message != "" {
			line("", "", "  "+message)
		}
	}
	fmt.Fprintf(&out, "ours:     %s\n", t.ours.counts())
	if t.upstream != nil {
		fmt.Fprintf(&out, "upstream: %s\n", t.upstream.counts())
	}
	worse := 0
	for _, r := range t.rows {
		if t.isWorse(r) {
			worse++
		}
	}
	if t.upstream != nil {
		fmt.Fprintf(&out, "only ours fails: %d\n", worse)
	}
	return out.String()
}

func (r *report) counts() string {
	counts := map[verdict]int{}
	for _, res := range r.specs {
		counts[res.verdict]++
	}
	text := fmt.Sprintf("%d passed, %d failed, %d skipped", counts[passed], counts[failed], counts[skipped])
	for _, problem := range r.problems {
		text += "; " + problem
	}
	return text
}
