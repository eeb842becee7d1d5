package cri_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

// The cgroup driver is asked for up to three times, two seconds apart.
func TestCgroupDriverOfAFaultyRuntime(t *testing.T) {
	const busy = `RuntimeConfig: Unavailable "busy"`
	for name, c := range map[string]struct {
		fake   fake.Config
		script string
		want   string // what is configured is systemd
		fails  codes.Code
		asked  int
		took   time.Duration
	}{
		"says cgroupfs":      {fake.Config{}, "", "cgroupfs", codes.OK, 1, 0},
		"says systemd":       {fake.Config{CgroupDriver: "systemd"}, "", "systemd", codes.OK, 1, 0},
		"lacks the call":     {fake.Config{Unimplemented: []string{"RuntimeConfig"}}, "", "systemd", codes.OK, 1, 0},
		"says nothing":       {fake.Config{}, "RuntimeConfig: empty reply", "systemd", codes.OK, 1, 0},
		"fails once":         {fake.Config{}, "1st " + busy, "cgroupfs", codes.OK, 2, 2 * time.Second},
		"fails twice":        {fake.Config{}, "1st to 2nd " + busy, "cgroupfs", codes.OK, 3, 4 * time.Second},
		"fails":              {fake.Config{}, busy, "", codes.Unavailable, 3, 4 * time.Second},
		"hangs once":         {fake.Config{}, "1st RuntimeConfig: hang", "cgroupfs", codes.OK, 2, 2*time.Minute + 2*time.Second},
		"hangs":              {fake.Config{}, "RuntimeConfig: hang", "", codes.DeadlineExceeded, 3, 6*time.Minute + 4*time.Second},
		"fails, then lacks":  {fake.Config{Unimplemented: []string{"RuntimeConfig"}}, "1st " + busy, "systemd", codes.OK, 2, 2 * time.Second},
		"is slow":            {fake.Config{}, "RuntimeConfig: take 100s", "cgroupfs", codes.OK, 1, 100 * time.Second},
		"restarts meanwhile": {fake.Config{}, "1st RuntimeConfig: restart", "cgroupfs", codes.OK, 2, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nodeConfig{fake: c.fake, script: c.script})
				begin := time.Now()
				driver, _, err := cri.CgroupDriver(t.Context(), n.runtime, cri.CgroupDriverSystemd)
				require.Equal(t, c.took, time.Since(begin))
				require.Equal(t, c.want, driver)
				require.Equal(t, c.fails, status.Code(err), "%v", err)
				time.Sleep(time.Second)
				require.Len(t, n.calls("RuntimeConfig"), c.asked)
			})
		})
	}
}

// patient watches a node's runtime until the test ends.
type patient struct {
	*cri.HealthMonitor
	mu    sync.Mutex
	told  []string // the time since the beginning, and what was told
	begin time.Time
}

func watch(t *testing.T, n *node) *patient {
	p := &patient{begin: time.Now()}
	var err error
	p.HealthMonitor, err = cri.NewHealthMonitor(cri.HealthConfig{Runtime: n.runtime, OnChange: p.note})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	synctest.Wait()
	return p
}

func (p *patient) note(h cri.Health) {
	p.mu.Lock()
	defer p.mu.Unlock()
	failed := ""
	if h.Err != nil {
		failed = ", polls fail"
	}
	p.told = append(p.told, fmt.Sprintf("%v: runtime %v, network %v%s",
		time.Since(p.begin), h.RuntimeReady.Readiness, h.NetworkReady.Readiness, failed))
}

// after waits until a time since the beginning, and what happens then.
func (p *patient) after(d time.Duration) []string {
	time.Sleep(d - time.Since(p.begin))
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told
}

// A runtime is polled every five seconds and is down thirty after its last good
// poll, at that very moment.
func TestHealthOfAFlappingRuntime(t *testing.T) {
	const well = "0s: runtime ready, network ready"
	for name, c := range map[string]struct {
		script string
		want   []string
		polls  int // in two minutes
	}{
		"well":                 {"", []string{well}, 25},
		"one poll fails":       {`2nd Status: Unavailable "x"`, []string{well, "5s: runtime ready, network ready, polls fail", "10s: runtime ready, network ready"}, 25},
		"every 2nd poll fails": {`every 2nd Status: Unavailable "x"`, nil, 25},
		"four polls fail":      {`2nd to 5th Status: Unavailable "x"`, []string{well, "5s: runtime ready, network ready, polls fail", "25s: runtime ready, network ready"}, 25},
		"seven polls fail": {`2nd to 8th Status: Unavailable "x"`, []string{well, "5s: runtime ready, network ready, polls fail",
			"30s: runtime not ready, network ready, polls fail", "40s: runtime ready, network ready"}, 25},
		"all other polls fail": {`from the 2nd Status: Unavailable "x"`, []string{well, "5s: runtime ready, network ready, polls fail",
			"30s: runtime not ready, network ready, polls fail"}, 25},
		"polls hang": {`from the 2nd Status: hang`, []string{well, "20s: runtime ready, network ready, polls fail",
			"30s: runtime not ready, network ready, polls fail"}, 8},
		"replies without conditions": {`from the 2nd Status: empty reply`, []string{well, "5s: runtime ready, network ready, polls fail",
			"30s: runtime not ready, network ready, polls fail"}, 25},
		"slow polls": {`Status: take 4s`, []string{"4s: runtime ready, network ready"}, 24},
		"never well": {`Status: Unavailable "x"`, []string{"0s: runtime unknown, network unknown, polls fail"}, 25},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nodeConfig{script: c.script})
				p := watch(t, n)
				told := p.after(2 * time.Minute)
				if c.want != nil {
					require.Equal(t, c.want, told)
				}
				for _, change := range told[1:] {
					if c.want == nil {
						require.Contains(t, change, "runtime ready", "it has never been away for long")
					}
				}
				require.Len(t, n.calls("Status"), c.polls)
			})
		})
	}
}

// A runtime that restarts is well again when it has come back, and a network that
// is not ready says why.
func TestHealthOfARuntimeThatRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{})
		p := watch(t, n)
		time.Sleep(time.Second)
		n.fake.SetCondition(runtimeapi.NetworkReady, false, "NetworkPluginNotReady", "no CNI")
		p.after(6 * time.Second)
		require.Equal(t, cri.Condition{Readiness: cri.NotReady, Reason: "NetworkPluginNotReady", Message: "no CNI"}, p.Health().NetworkReady)
		require.True(t, p.Health().RuntimeReady.Ready())
		n.fake.SetCondition(runtimeapi.NetworkReady, true, "", "")
		p.after(11 * time.Second)

		n.stop()
		p.after(39 * time.Second)
		require.True(t, p.Health().RuntimeReady.Ready())
		require.Error(t, p.Health().Err)
		p.after(41 * time.Second)
		require.Equal(t, cri.ReasonRuntimeDown, p.Health().RuntimeReady.Reason)
		p.after(10 * time.Minute)
		n.serve()
		told := p.after(10*time.Minute + longestPause + 5*time.Second)
		require.True(t, p.Health().RuntimeReady.Ready())
		require.NoError(t, p.Health().Err)
		require.Len(t, told, 6, "%q", told)
	})
}
