package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const testReport = `[{
	"SpecialSuiteFailureReasons": ["Suite Timeout Elapsed"],
	"SpecReports": [
		{"ContainerHierarchyTexts": null, "LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
		{"ContainerHierarchyTexts": ["[sig-node] Pods", "status"], "LeafNodeType": "It", "LeafNodeText": "is set", "State": "passed", "RunTime": 2500000000},
		{"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "ends", "State": "timedout", "Failure": {"Message": "expected\n    <int>: 1"}},
		{"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "ends", "State": "panicked", "Failure": {"Message": "nil"}},
		{"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "is late", "State": "timedout", "Failure": {"Message": "A suite timeout occurred"}},
		{"ContainerHierarchyTexts": ["[sig-node] Swap"], "LeafNodeType": "It", "LeafNodeText": "swaps", "State": "skipped", "Failure": {"Message": "no swap"}},
		{"ContainerHierarchyTexts": ["[sig-node] Swap"], "LeafNodeType": "It", "LeafNodeText": "is not selected", "State": "skipped"},
		{"ContainerHierarchyTexts": ["[sig-node] Swap"], "LeafNodeType": "It", "LeafNodeText": "is not written", "State": "pending"},
		{"LeafNodeType": "ReportAfterSuite", "State": "failed", "Failure": {"Message": "disk full"}}
	]
}]`

func TestParseReport(t *testing.T) {
	r, err := parseReport([]byte(testReport))
	require.NoError(t, err)
	require.Equal(t, &report{
		specs: map[string]result{
			"[sig-node] Pods status is set": {verdict: passed, time: 2500 * time.Millisecond},
			"[sig-node] Pods ends":          {verdict: failed, message: "expected <int>: 1"},
			"[sig-node] Pods ends #2":       {verdict: failed, message: "nil"},
			"[sig-node] Pods is late":       {verdict: absent, message: suiteTimeout},
			"[sig-node] Swap swaps":         {verdict: skipped, message: "no swap"},
		},
		problems: []string{"Suite Timeout Elapsed", "ReportAfterSuite: disk full"},
	}, r)
	_, err = parseReport([]byte("{"))
	require.Error(t, err)
	require.Len(t, []rune(summary(strings.Repeat("é", 400))), 301)
}

func reportOf(verdicts string) *report {
	r := &report{specs: map[string]result{}}
	for field := range strings.FieldsSeq(verdicts) {
		name, v, _ := strings.Cut(field, "=")
		res := result{verdict: verdict(v)}
		if res.verdict == failed {
			res.message = "why " + name
		}
		r.specs[name] = res
	}
	return r
}

func TestTable(t *testing.T) {
	both := newTable(reportOf("a=ok b=FAIL c=FAIL d=ok e=skip g=FAIL"), reportOf("a=ok b=ok c=FAIL d=FAIL e=ok f=ok g=skip"))
	require.Equal(t, `ours  upstream  spec
FAIL  ok        b
                  why b
FAIL  skip      g
                  why g
FAIL  FAIL      c
                  why c
ok    FAIL      d
                  why d
ours:     2 passed, 3 failed, 1 skipped
upstream: 4 passed, 2 failed, 1 skipped
only ours fails: 1
`, both.text(false))
	require.Contains(t, both.text(true), "-     ok        f (0.0 s, 0.0 s)\n")
	require.True(t, both.worse())
	require.False(t, newTable(reportOf("a=FAIL b=FAIL"), reportOf("a=FAIL b=skip")).worse())

	alone := newTable(reportOf("a=ok b=FAIL"), nil)
	require.Equal(t, "ours  spec\nFAIL  b\n        why b\nours:     1 passed, 1 failed, 0 skipped\n", alone.text(false))
	require.True(t, alone.worse())

	broken := newTable(reportOf("a=ok"), reportOf("a=ok"))
	require.False(t, broken.worse())
	broken.ours.problems = []string{"Suite Timeout Elapsed"}
	require.True(t, broken.worse())
	require.Contains(t, broken.text(false), "ours:     1 passed, 0 failed, 0 skipped; Suite Timeout Elapsed\n")

	// A report of an earlier run can have more specs.
	earlier := reportOf("a=ok z=FAIL")
	earlier.keep(reportOf("a=ok"))
	require.NotContains(t, earlier.specs, "z")
}
