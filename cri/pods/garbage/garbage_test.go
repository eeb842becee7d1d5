package garbage

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/pleg"
)

// podsStub writes down what it is asked for.
type podsStub struct {
	done []string
	fail error
}

func (p *podsStub) StopContainer(_ context.Context, _ labels.Pod, name, _ string, gracefully bool) error {
	p.done = append(p.done, fmt.Sprint("stop ", name, " ", gracefully))
	return p.fail
}

func (p *podsStub) RemoveContainer(_ context.Context, _ labels.Pod, name, _ string) error {
	p.done = append(p.done, "remove "+name)
	return nil
}

func (p *podsStub) RemoveSandbox(context.Context, string) error { return nil }
func (p *podsStub) Files() podfiles.Layout                      { return podfiles.Layout{} }
func (p *podsStub) Retain(map[string]bool)                      {}
func (p *podsStub) Forget(types.UID)                            {}

func TestNewRefuses(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Runtime": {Pods: &podsStub{}},
		"Pods":    {Runtime: struct{ cri.RuntimeService }{}},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, "Config."+field+" is missing")
	}
}

// What nobody knows the state of is stopped before it is removed, and stays if it
// does not stop.
func TestUnknownIsStopped(t *testing.T) {
	pods := &podsStub{}
	c, err := New(Config{Runtime: struct{ cri.RuntimeService }{}, Pods: pods})
	require.NoError(t, err)
	unknown := container{unit: unit{uid: "1", name: "a"}, id: "x", state: pleg.StateUnknown}
	for _, stays := range []bool{false, true} {
		require.NoError(t, c.collectContainer(t.Context(), unknown, stays))
		require.Equal(t, []string{fmt.Sprint("stop a ", stays), "remove a"}, pods.done)
		pods.done = nil
	}
	unknown.state = pleg.StateExited
	require.NoError(t, c.collectContainer(t.Context(), unknown, true))
	require.Equal(t, []string{"remove a"}, pods.done)

	unknown.state, pods.done, pods.fail = pleg.StateUnknown, nil, errors.New("away")
	require.ErrorIs(t, c.collectContainer(t.Context(), unknown, true), pods.fail)
	require.Equal(t, []string{"stop a true"}, pods.done)
}

// Of each container's instances, newest first, the first ones are kept; what has not
// exited is not counted and stays.
func TestCleanDeadContainers(t *testing.T) {
	status := &pleg.PodStatus{UID: "1", Name: "pod", Namespace: "ns"}
	for _, name := range []string{"a", "a", "a", "b"} {
		status.Containers = append(status.Containers, pleg.ContainerStatus{Name: name, State: pleg.StateExited})
	}
	status.Containers = append([]pleg.ContainerStatus{{Name: "a", State: pleg.StateRunning}, {Name: "b", State: pleg.StateUnknown}}, status.Containers...)
	for _, tc := range []struct {
		request CleanRequest
		want    []string
	}{
		{CleanRequest{}, []string{"remove a", "remove a"}},
		{CleanRequest{Keep: 2}, []string{"remove a"}},
		{CleanRequest{Keep: 3}, nil},
		{CleanRequest{Keep: 3, All: true}, []string{"remove a", "remove a", "remove a", "remove b"}},
	} {
		pods := &podsStub{}
		c, err := New(Config{Runtime: struct{ cri.RuntimeService }{}, Pods: pods})
		require.NoError(t, err)
		tc.request.Status = status
		require.NoError(t, c.CleanDeadContainers(t.Context(), tc.request))
		require.Equal(t, tc.want, pods.done)
	}
}
