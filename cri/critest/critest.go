package critest

import (
	"sync"
	"testing"

	"github.com/podwright/podwright/cri"
)

// Config tells Run what it tests.
type Config struct {
	// Start makes the runtime that one case uses, or connects to one. It is
	// called once per case, inside Around, and cleans up with t.Cleanup. The
	// runtime may be shared: cases use pods of their own, look at nothing else
	// and remove what they made. Required.
	Start func(t *testing.T) Subject
	// Around runs each case. synctest.Test fits here for a runtime that lives
	// in memory. nil: the case is called as it is.
	Around func(t *testing.T, test func(t *testing.T))
	// Parallel is how many cases run at a time, whatever go test's -parallel
	// says: cases mostly wait for processes to end, so a runtime outside of the
	// test is well used with more cases than there are processors. Default (and
	// meaning of zero) 1: one after the other.
	Parallel int
}

// Subject is a runtime under test.
type Subject struct {
	// Runtime and Images are its two services. Required.
	Runtime cri.RuntimeService
	Images  cri.ImageService
	// Image has the shell and the tools of busybox; it is present or can be
	// pulled without credentials. Required.
	Image string
	// OtherImage is a second image of that kind, with another ID than Image, which
	// no container uses and which cases may remove and pull. Its registry has it
	// under no tag "critest-absent". "": those cases are skipped.
	OtherImage string
	// CgroupParent is a cgroup that exists, which cases about the statistics of
	// sandboxes name as their pod's: there are runtimes that measure nothing else.
	// "": their pods name none.
	CgroupParent string
	// Hardened says that the runtime survives every request. false: cases with
	// requests that end known runtimes (containerd 1.6: CreateContainer without a
	// sandbox config) are skipped.
	Hardened bool
	// Sessions opens the URLs that Exec, Attach and PortForward answer. nil: the
	// cases that need it are skipped with "no session client".
	Sessions SessionClient
}

// testCase is one thing a runtime must do. Its name is the rule.
type testCase struct {
	name string
	run  func(e *env)
}

// group is the cases of one concern.
type group struct {
	name  string
	cases []testCase
	// serial: the cases use something that they share, so one runs at a time.
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

// Run tests a runtime: one subtest per case, grouped by concern. A case about an
// optional call that the runtime lacks is skipped. A last line of the log counts
// the cases and names the calls that are missing.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.Start == nil {
		t.Fatal("critest: Config.Start is required")
	}
	if cfg.Around == nil {
		cfg.Around = func(t *testing.T, test func(t *testing.T)) { test(t) }
	}
	report := &report{}
	places := make(chan struct{}, max(1, cfg.Parallel))
	var running sync.WaitGroup
	for _, g := range groups() {
		running.Go(func() {
			t.Run(g.name, func(t *testing.T) { g.run(t, places, func(t *testing.T, c testCase) { cfg.run(t, c, report) }) })
		})
		if cfg.Parallel <= 1 {
			running.Wait()
		}
	}
	running.Wait()
	t.Log(report)
}

// run runs the cases of a group, each when there is a place for it.
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

// run runs one case.
func (cfg Config) run(t *testing.T, c testCase, r *report) {
	cfg.Around(t, func(t *testing.T) {
		defer r.count(t)
		c.run(newEnv(t, cfg.Start(t), r))
	})
}
