package results

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func repeat(pkg, test string) string { return "repeat " + pkg + " " + test }

// script writes events, each as "action package test output".
func script(t *testing.T, log *Log, label string, lines ...string) {
	t.Helper()
	events := log.Reader(label)
	for _, line := range lines {
		part := strings.SplitN(line+"   ", " ", 4)
		text := fmt.Sprintf(`{"Action":%q,"Package":%q,"Test":%q,"Elapsed":1.5,"Output":%q}`+"\n", part[0], part[1], part[2], strings.TrimRight(part[3], " ")+"\n")
		for _, b := range []byte(text) { // however the writes are cut
			_, err := events.Write([]byte{b})
			require.NoError(t, err)
		}
	}
	events.Close()
}

func TestReport(t *testing.T) {
	for name, c := range map[string]struct {
		label  string
		events []string
		want   string
	}{
		"pass": {
			events: []string{"run p TestA", "output p TestA quiet", "pass p TestA", "skip p TestB", "pass p"},
			want:   "ok  \tp\t1.500s\n\n1 passed, 0 failed, 1 skipped\n",
		},
		"no tests": {events: []string{"output p  ?   p [no test files]", "skip p"}, want: "\n0 passed, 0 failed, 0 skipped\n"},
		"a subtest fails": {
			events: []string{
				"output p TestA === RUN TestA", "output p TestA/x     x_test.go:1: 2 pods", "output p TestA/x INFO sync",
				"output p TestA/x     --- FAIL: TestA/x", "fail p TestA/x", "pass p TestA/y", "fail p TestA", "output p  FAIL", "fail p",
			},
			want: "--- FAIL: p TestA/x (1.50s)\n    x_test.go:1: 2 pods\nFAIL\tp\t1.500s\n\nFAIL p TestA/x: repeat p TestA/x\n\n0 passed, 1 failed, 0 skipped\n",
		},
		"the parent test has more output": {
			events: []string{"fail p TestA/x", "output p TestA     x_test.go:9: a leak", "fail p TestA", "fail p"},
			want:   "--- FAIL: p TestA/x (1.50s)\n--- FAIL: p TestA (1.50s)\n    x_test.go:9: a leak\nFAIL\tp\t1.500s\n\nFAIL p TestA/x: repeat p TestA/x\n\n0 passed, 1 failed, 0 skipped\n",
		},
		"a crash": {
			events: []string{"run p TestA", "output p TestA/x panic: nil map", "output p  exit status 2", "fail p"},
			want:   "--- FAIL: p TestA/x (1.50s)\npanic: nil map\nFAIL\tp\t1.500s\n\nFAIL p TestA/x: repeat p TestA/x\n\n0 passed, 1 failed, 0 skipped\n",
		},
		"compile error": {
			events: []string{"output p  x.go:1: undefined", "fail p"},
			want:   "--- FAIL: p (1.50s)\nx.go:1: undefined\nFAIL\tp\t1.500s\n\nFAIL p: repeat p \n\n0 passed, 1 failed, 0 skipped\n",
		},
		"goleak after a labelled test": {
			label:  "TestA",
			events: []string{"pass p TestA", "output p  goleak: 1 goroutine", "fail p"},
			want:   "--- FAIL: p TestA (1.50s)\ngoleak: 1 goroutine\nFAIL\tp\t1.500s\tTestA\n\nFAIL p TestA: repeat p TestA\n\n1 passed, 1 failed, 0 skipped\n",
		},
		"killed": {
			label:  "TestA",
			events: []string{"run p TestA"},
			want:   "--- FAIL: p TestA (0.00s)\nFAIL\tp\t0.000s\tTestA\n\nFAIL p TestA: repeat p TestA\n\n0 passed, 1 failed, 0 skipped\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			log := New(&out, repeat)
			script(t, log, c.label, c.events...)
			log.Summary()
			require.Equal(t, c.want, out.String())
			require.Equal(t, strings.Contains(c.want, "FAIL"), log.Failed())
		})
	}
}

func TestOtherLinesArePrinted(t *testing.T) {
	var out strings.Builder
	events := New(&out, repeat).Reader("")
	fmt.Fprint(events, "go: downloading\n{\"Action\":\"build-output\",\"ImportPath\":\"p\",\"Output\":\"x.go:1: bad\\n\"}\n")
	events.Close()
	require.Equal(t, "go: downloading\nx.go:1: bad\n", out.String())
}

func TestMuchOutputAndManyFailures(t *testing.T) {
	var out strings.Builder
	log := New(&out, repeat)
	var lines []string
	for i := range 10 * keptLines {
		lines = append(lines, fmt.Sprintf("output p TestA line %d", i))
	}
	lines = append(lines, "fail p TestA")
	for i := range 20 {
		lines = append(lines, fmt.Sprintf("fail p TestB%d", i))
	}
	script(t, log, "", lines...)
	require.Less(t, strings.Count(out.String(), "\n"), 3*keptLines)
	require.Contains(t, out.String(), fmt.Sprintf("line %d\n", 10*keptLines-1))
	out.Reset()
	log.Summary()
	require.Equal(t, summaryLines, strings.Count(out.String(), "repeat")+1)
	require.Contains(t, out.String(), "and 12 more, above")
}

func TestTable(t *testing.T) {
	log := New(new(strings.Builder), repeat)
	events := log.Reader("")
	fmt.Fprintln(events, `{"Action":"pass","Package":"p","Test":"TestLong","Elapsed":7}`)
	fmt.Fprintln(events, `{"Action":"pass","Package":"p","Test":"TestShort","Elapsed":4}`)
	log.Ran("p", 10*time.Second, 4*time.Second)
	log.Ran("p", 2*time.Second, time.Second)
	log.Ran("q", 3*time.Second, 6*time.Second)
	var out strings.Builder
	require.NoError(t, log.Table(&out))
	require.Equal(t, []string{
		"wall s CPU s waiting s package or test",
		"12.0 5.0 7.0 p",
		"7.0 TestLong",
		"3.0 6.0 0.0 q",
		"15.0 11.0 4.0 sum of all packages",
	}, compact(out.String()))
}

func compact(table string) (lines []string) {
	for line := range strings.Lines(table) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}
