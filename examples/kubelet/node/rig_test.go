package node_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/examples/kubelet/node/nodetest"
	nodestatus "github.com/podwright/podwright/status/node"
)

type rig struct {
	*node.Node
	api *nodetest.API
	cfg node.Config

	mu       sync.Mutex
	machine  nodestatus.Machine
	notReady []string
	pressure nodestatus.Pressure
	events   []string
	failures int
	log      bytes.Buffer
	stop     func()
}

func (r *rig) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(line)
}

func (r *rig) logCount(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.log.String(), text)
}

func (r *rig) eventReasons() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.events...)
}

func (r *rig) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *rig) facts(context.Context) nodestatus.Facts {
	r.mu.Lock()
	defer r.mu.Unlock()
	machine, pressure := r.machine, r.pressure
	return nodestatus.Facts{Machine: &machine, Pressure: &pressure}
}

func (r *rig) problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.notReady
}

// newRig starts an agent of the node n. change is optional.
func newRig(t *testing.T, api *nodetest.API, change func(*rig)) *rig {
	t.Helper()
	r := &rig{api: api, machine: nodestatus.Machine{ID: "machine", SystemUUID: "system", BootID: "boot", Cores: 2, Memory: 1 << 30, Storage: 1 << 30}}
	r.cfg = node.Config{
		Name:             "n",
		ControllerAttach: true,
		Addressing: node.Addressing{Network: node.Network{
			Lookup:       func(context.Context, string) ([]netip.Addr, error) { return nil, nil },
			Local:        func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil },
			DefaultRoute: func(netip.Addr) (netip.Addr, error) { return netip.MustParseAddr("10.0.0.1"), nil },
		}},
		Nodes: api, Leases: api,
		Facts:             r.facts,
		NotReady:          r.problems,
		OnRepeatedFailure: func() { r.set(func() { r.failures++ }) },
		Event: func(ref v1.ObjectReference, _, reason, _ string) {
			if ref.Kind == "Node" && ref.Name == "n" && ref.UID == "n" {
				r.set(func() { r.events = append(r.events, reason) })
			}
		},
		Logger: slog.New(slog.NewTextHandler(r, nil)),
	}
	if change != nil {
		change(r)
	}
	var err error
	r.Node, err = node.New(r.cfg)
	require.NoError(t, err)
	r.stop = apitest.Run(t, r.Run)
	return r
}

// rigged runs a test in a bubble, with an agent on an API. before returns the fault of each call.
// before and change are optional.
func rigged(t *testing.T, before func(context.Context, nodetest.Call) error, change func(*rig), test func(t *testing.T, r *rig, api *nodetest.API)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := &nodetest.API{Before: before}
		test(t, newRig(t, api, change), api)
	})
}

func bubble(t *testing.T, test func(t *testing.T, api *nodetest.API)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, &nodetest.API{}) })
}

// hanging returns a fault: calls hang while away is set.
func hanging(away *atomic.Bool, verbs ...string) func(context.Context, nodetest.Call) error {
	return func(ctx context.Context, c nodetest.Call) error {
		if !away.Load() || len(verbs) > 0 && !slices.Contains(verbs, c.Verb) {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// pass advances the time and waits for due work.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func ready(n *v1.Node) string {
	c := nodestatus.Condition(&n.Status, v1.NodeReady)
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s", c.Status, c.Reason)
}
