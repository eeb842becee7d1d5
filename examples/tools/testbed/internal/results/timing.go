package results

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

type timing struct {
	pkg, test string
	wall, cpu time.Duration
}

// longTest is the time above which the table lists a test.
const longTest = 5 * time.Second

// Ran records the time of one execution of a package's test program. Executions of one package add up.
func (l *Log) Ran(pkg string, wall, cpu time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.packages[pkg]
	l.packages[pkg] = timing{pkg: pkg, wall: t.wall + wall, cpu: t.cpu + cpu}
}

// Table prints the wall time, CPU time and waiting time per package, the longest first, and below
// each package its tests and subtests of at least five seconds. The time of a test does not
// include its parallel subtests. The CPU time includes the processes that tests start and wait
// for, but not a container runtime.
func (l *Log) Table(out io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "wall s\tCPU s\twaiting s\t  package or test")
	row := func(t timing, indent, name string) {
		cpu, waiting := "", ""
		if t.test == "" {
			cpu, waiting = seconds(t.cpu), seconds(max(0, t.wall-t.cpu))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t  %s%s\n", seconds(t.wall), cpu, waiting, indent, name)
	}
	var total timing
	longestFirst := func(a, b timing) int {
		return cmp.Or(cmp.Compare(b.wall, a.wall), strings.Compare(a.pkg+a.test, b.pkg+b.test))
	}
	for _, pkg := range slices.SortedFunc(maps.Values(l.packages), longestFirst) {
		total.wall, total.cpu = total.wall+pkg.wall, total.cpu+pkg.cpu
		row(pkg, "", pkg.pkg)
		for _, t := range slices.SortedFunc(slices.Values(l.tests), longestFirst) {
			if t.pkg == pkg.pkg && t.wall >= longTest {
				row(t, "    ", t.test)
			}
		}
	}
	row(total, "", "sum of all packages")
	return w.Flush()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }
