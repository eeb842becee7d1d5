package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	// beforeLog begins the log of a kubelet in the output of a test.
	beforeLog = "end of the kubelet's log"
	// summaryLines and summaryWidth are how much the summary tells of a failed test.
	summaryLines = 25
	summaryWidth = 600
)

// failures gathers from the output of tests what they have failed with. Logs of
// kubelets are long and come after it: whoever keeps only the end of the output
// would not know.
type failures struct {
	failed  []*failedTest
	current *failedTest // whose messages come now
}

type failedTest struct {
	head     string
	messages []string
}

// add takes the next line.
func (f *failures) add(line string) {
	text := strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(text, "--- FAIL: "):
		f.current = &failedTest{head: text}
		f.failed = append(f.failed, f.current)
	case strings.HasPrefix(text, "--- "), strings.HasPrefix(text, "=== "), strings.Contains(text, beforeLog), text == "FAIL":
		f.current = nil
	case f.current != nil && text != "":
		text = strings.TrimRight(line, "\r\n")
		f.current.messages = append(f.current.messages, text[:min(len(text), summaryWidth)])
	}
}

// String is what each test has failed with, which stands at the end of what it says;
// "" when none has.
func (f *failures) String() string {
	var b strings.Builder
	for _, test := range f.failed {
		if b.Len() == 0 {
			b.WriteString("\nonce more, what failed:\n")
		}
		fmt.Fprintln(&b, test.head)
		for _, line := range test.messages[max(0, len(test.messages)-summaryLines):] {
			fmt.Fprintln(&b, line)
		}
	}
	return b.String()
}

// summarized runs tests with their output passed on, and tells in the end what has
// failed.
func summarized(run func() int) int {
	r, w, err := os.Pipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return run()
	}
	out, f, ended := os.Stdout, &failures{}, make(chan struct{})
	os.Stdout = w
	go func() {
		defer close(ended)
		f.copy(out, r)
	}()
	code := run()
	os.Stdout = out
	_ = w.Close()
	<-ended
	fmt.Fprint(out, f)
	return code
}

// copy passes on what it reads, line by line, until there is no more.
func (f *failures) copy(to io.Writer, from io.ReadCloser) {
	defer from.Close()
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		_, _ = io.WriteString(to, line)
		f.add(line)
		if err != nil {
			return
		}
	}
}

func TestSummaryOfFailures(t *testing.T) {
	const output = `--- FAIL: TestA (0.00s)
    --- PASS: TestA/v2 (1.00s)
        a_test.go:1: not of interest
    --- FAIL: TestA/v1 (2.00s)
        a_test.go:5: all goes well: took 7s
        a_test.go:9: it runs: not within 45s: Pending
        kubelet_test.go:114: end of the kubelet's log (keeps all), after what failed:
            time=1 something
--- FAIL: TestB (0.00s)
    b_test.go:7: 
        	Error:	not equal
FAIL
`
	var f failures
	var passed strings.Builder
	f.copy(&passed, io.NopCloser(strings.NewReader(output)))
	require.Equal(t, output, passed.String())
	require.Equal(t, `
once more, what failed:
--- FAIL: TestA (0.00s)
--- FAIL: TestA/v1 (2.00s)
        a_test.go:5: all goes well: took 7s
        a_test.go:9: it runs: not within 45s: Pending
--- FAIL: TestB (0.00s)
    b_test.go:7: 
        	Error:	not equal
`, f.String())

	var long failures
	long.add("--- FAIL: TestC (0.00s)\n")
	for i := range 100 {
		long.add(fmt.Sprintf("    line %d %s\n", i, strings.Repeat("x", 1000)))
	}
	kept := strings.Split(strings.TrimSpace(long.String()), "\n")[2:]
	require.Len(t, kept, summaryLines)
	require.Contains(t, kept[summaryLines-1], "line 99 ")
	require.Len(t, kept[0], summaryWidth)
	require.Empty(t, new(failures).String(), "nothing failed")
}
