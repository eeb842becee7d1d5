package critest

import (
	"sync"
	"testing"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/internal/bubbletest"
)

// Config configures Run.
type Config struct {
	// Start makes or connects to the runtime of one case. It is called once per case, inside
	// Around, and cleans up with t.Cleanup. The runtime may be shared: cases use only pods of their
	// own and remove them. Required.
	Start func(t *testing.T) Subject
	// Around runs each case, for example with synctest.Test for a runtime in memory. A case that
	// stops the clock of its bubble, such as by waiting for a socket, fails after seconds. Optional:
	// without Around the case is called directly.
	Around func(t *testing.T, test func(t *testing.T))
	// Parallel is the number of concurrent cases, regardless of go test's -parallel. Cases mostly
	// wait for processes to end, so for a runtime in another process it may exceed the number of
	// processors. Default: 1.
	Parallel int
}

// Subject is a runtime under test.
type Subject struct {
	// Runtime and Images are the two services of the runtime. Required.
	Runtime cri.RuntimeService
	Images  cri.ImageService
	// Image is an image with the shell and the tools of busybox. It must be present, or available
	// without credentials. Required.
	Image string
	// OtherImage is a second such image, with an ID different from Image. No container uses it, and
	// cases may remove and pull it. Its registry has no tag "critest-absent" of it. Optional:
	// without it those cases are skipped.
	OtherImage string
	// CgroupParent is an existing cgroup for the pods of cases about sandbox statistics: some
	// runtimes measure only such pods. Optional.
	CgroupParent string
	// Hardened is true if the runtime survives every request. Otherwise cases with requests that
	// crash certain runtimes (containerd 1.6: CreateContainer without a sandbox config) are
	// skipped.
	Hardened bool
	// Sessions opens the URLs that Exec, Attach and PortForward return. Optional: without it those
	// cases are skipped with "no session client".
	Sessions SessionClient
}

// testCase checks one rule, which is its name.
type testCase struct {
	name string
	run  func(e *env)
}

// group has the cases of one concern.
type group struct {
	name  string
	cases []testCase
	// serial runs one case at a time, because the cases share a resource.
	serial bool
}

func groups() []group {
	return []group{
		{name: "Sandbox", cases: sandboxCases()},
		{name: "Container", cases: containerCases()},
		{name: "Order", cases: orderCases()},
		{name: "Names", cases: nameCases()},
		{name: "List", cases: listCases()},
		{name: "Resources", cases: resourceCases()},
		{name: "Idempotence", cases: idempotenceCases()},
		{name: "Concurrency", cases: concurrencyCases()},
		{name: "BadInput", cases: badInputCases()},
		{name: "Info", cases: infoCases()},
		{name: "Stop", cases: stopCases()},
		{name: "Logs", cases: logCases()},
		{name: "ExecSync", cases: execSyncCases()},
		{name: "Streaming", cases: streamingCases()},
		{name: "Events", cases: eventCases()},
		{name: "Images", cases: imageCases(), serial: true},
		{name: "Stats", cases: statsCases()},
	}
}

// Run tests a runtime with one subtest per case, grouped by concern. It skips cases about optional
// calls that the runtime lacks. The last log line counts the cases and lists the missing calls.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.Start == nil {
		t.Fatal("critest: Config.Start is required")
	}
	report := &report{}
	suite := &bubbletest.Cases{Around: cfg.Around}
	places := make(chan struct{}, max(1, cfg.Parallel))
	var running sync.WaitGroup
	for _, g := range groups() {
		running.Go(func() {
			t.Run(g.name, func(t *testing.T) { g.run(t, places, func(t *testing.T, c testCase) { c.play(t, suite, cfg, report) }) })
		})
		if cfg.Parallel <= 1 {
			running.Wait()
		}
	}
	running.Wait()
	t.Log(report)
}

// run runs the cases of a group, each when one of places is free.
func (g group) run(t *testing.T, places chan struct{}, run func(*testing.T, testCase)) {
	var running sync.WaitGroup
	for _, c := range g.cases {
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			t.Run(c.name, func(t *testing.T) { run(t, c) })
		})
		if g.serial || cap(places) == 1 {
			running.Wait()
		}
	}
	running.Wait()
}

func (c testCase) play(t *testing.T, suite *bubbletest.Cases, cfg Config, r *report) {
	counted := false
	defer func() {
		if !counted { // the case was abandoned or not run
			r.count(t)
		}
	}()
	suite.Run(t, func(t *testing.T, tb testing.TB) {
		defer func() { r.count(tb); counted = true }()
		c.run(newEnv(tb, cfg.Start(t), r))
	})
}
