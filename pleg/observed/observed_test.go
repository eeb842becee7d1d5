package observed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestContainersOfAPod(t *testing.T) {
	s := &Pod{
		Sandboxes: []Sandbox{{ID: "new", State: SandboxReady}, {ID: "old", State: SandboxNotReady}},
		Containers: []Container{
			{ID: ContainerID{ID: "2"}, Name: "a", SandboxID: "new", State: StateRunning},
			{ID: ContainerID{ID: "1"}, Name: "a", SandboxID: "old", State: StateExited},
			{ID: ContainerID{ID: "0"}, Name: "b", SandboxID: "old", State: StateRunning},
		},
	}
	require.Equal(t, "2", s.Newest("a").ID.ID)
	require.Nil(t, s.Newest("c"))
	require.Len(t, s.Running(), 2)
}

func TestSandboxChanged(t *testing.T) {
	ready := Sandbox{ID: "s", State: SandboxReady, Attempt: 3, HasNetworkStatus: true, IPs: []string{"10.0.0.1"}}
	with := func(change func(*Sandbox)) []Sandbox {
		s := ready
		change(&s)
		return []Sandbox{s}
	}
	for name, c := range map[string]struct {
		sandboxes []Sandbox
		host      bool
		want      SandboxChange
	}{
		"none":                          {nil, false, SandboxChange{Changed: true}},
		"good":                          {[]Sandbox{ready}, false, SandboxChange{Attempt: 3, ID: "s"}},
		"not ready":                     {with(func(s *Sandbox) { s.State = SandboxNotReady }), false, SandboxChange{true, 4, "s"}},
		"unknown":                       {with(func(s *Sandbox) { s.State = SandboxUnknown }), false, SandboxChange{true, 4, "s"}},
		"two ready":                     {[]Sandbox{ready, ready}, false, SandboxChange{true, 4, "s"}},
		"an old one beside":             {[]Sandbox{ready, {State: SandboxNotReady}}, false, SandboxChange{Attempt: 3, ID: "s"}},
		"other network":                 {[]Sandbox{ready}, true, SandboxChange{true, 4, ""}},
		"address lost":                  {with(func(s *Sandbox) { s.IPs = nil }), false, SandboxChange{true, 4, "s"}},
		"address unavailable":           {with(func(s *Sandbox) { s.IPs, s.HasNetworkStatus = nil, false }), false, SandboxChange{Attempt: 3, ID: "s"}},
		"host network needs no address": {with(func(s *Sandbox) { s.IPs, s.HostNetwork = nil, true }), true, SandboxChange{Attempt: 3, ID: "s"}},
	} {
		require.Equal(t, c.want, (&Pod{Sandboxes: c.sandboxes}).SandboxChanged(c.host), name)
	}
}

func TestStrings(t *testing.T) {
	require.Equal(t, []string{"", "containerd://abc"}, []string{ContainerID{Runtime: "containerd"}.String(), ContainerID{Runtime: "containerd", ID: "abc"}.String()})
	require.Equal(t, []string{"unknown", "created", "running", "exited"},
		[]string{StateUnknown.String(), StateCreated.String(), StateRunning.String(), StateExited.String()})
	require.Equal(t, []string{"unknown", "ready", "not ready"},
		[]string{SandboxUnknown.String(), SandboxReady.String(), SandboxNotReady.String()})
}

// The list entry and the detailed status of a pod agree in Stopped, in every state.
func TestListAndStatusAgreeOnStopped(t *testing.T) {
	for _, c := range []State{StateUnknown, StateCreated, StateRunning, StateExited} {
		for _, sb := range []SandboxState{SandboxUnknown, SandboxReady, SandboxNotReady} {
			s := &Pod{Containers: []Container{{State: c}}, Sandboxes: []Sandbox{{State: sb}}}
			want := (c == StateCreated || c == StateExited) && sb == SandboxNotReady
			listed := s.Listed()
			require.Equal(t, want, s.Stopped(), "%s, %s", c, sb)
			require.Equal(t, want, listed.Stopped(), "%s, %s", c, sb)
			require.False(t, s.Empty())
		}
	}
	require.True(t, (&Pod{}).Stopped())
	require.True(t, (&Pod{}).Empty())
}

// CreatedAt of a list entry is the newest creation time of a sandbox or container.
func TestListed(t *testing.T) {
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	require.Equal(t, ListedPod{UID: "u", Name: "n", Namespace: "ns"}, (&Pod{UID: "u", Name: "n", Namespace: "ns"}).Listed())
	for sandbox, want := range map[int64]int64{1: 3, 5: 5} {
		got := (&Pod{
			UID: "u", Sandboxes: []Sandbox{{ID: "s", State: SandboxReady, CreatedAt: at(sandbox)}},
			Containers: []Container{
				{ID: ContainerID{ID: "a"}, Name: "x", State: StateRunning, CreatedAt: at(2)}, {ID: ContainerID{ID: "b"}, CreatedAt: at(3)}, {ID: ContainerID{ID: "c"}, CreatedAt: at(1)},
			},
		}).Listed()
		require.Equal(t, ListedPod{
			UID: "u", CreatedAt: at(want), Sandboxes: []ListedSandbox{{ID: "s", State: SandboxReady}},
			Containers: []ListedContainer{{ID: ContainerID{ID: "a"}, Name: "x", State: StateRunning}, {ID: ContainerID{ID: "b"}}, {ID: ContainerID{ID: "c"}}},
		}, got)
	}
}
