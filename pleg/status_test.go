package pleg

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestContainerIDRoundTrip(t *testing.T) {
	for _, id := range []ContainerID{{}, {Runtime: "containerd", ID: "abc"}, {ID: "x"}} {
		got, err := ParseContainerID(id.String())
		require.NoError(t, err)
		require.Equal(t, id, got)
	}
	for _, bad := range []string{"abc", "containerd://", "://"} {
		_, err := ParseContainerID(bad)
		require.Error(t, err, bad)
	}
}

func TestContainersOfAPod(t *testing.T) {
	s := &PodStatus{
		Sandboxes: []Sandbox{{ID: "new", State: SandboxReady}, {ID: "old", State: SandboxNotReady}},
		Containers: []ContainerStatus{
			{ID: ContainerID{ID: "2"}, Name: "a", SandboxID: "new", State: StateRunning},
			{ID: ContainerID{ID: "1"}, Name: "a", SandboxID: "old", State: StateExited},
			{ID: ContainerID{ID: "0"}, Name: "b", SandboxID: "old", State: StateRunning},
		},
	}
	require.Equal(t, "2", s.Newest("a").ID.ID)
	require.Nil(t, s.Newest("c"))
	require.Len(t, s.Running(), 2)
	require.Len(t, s.Active(), 1)
	s.Sandboxes[0].State = SandboxNotReady
	require.Empty(t, s.Active())
	s.Sandboxes = nil
	require.Empty(t, s.Active(), "what is left without a sandbox")
	require.Empty(t, (&PodStatus{}).Active())
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
		"none":                {nil, false, SandboxChange{Changed: true}},
		"good":                {[]Sandbox{ready}, false, SandboxChange{Attempt: 3, ID: "s"}},
		"not ready":           {with(func(s *Sandbox) { s.State = SandboxNotReady }), false, SandboxChange{true, 4, "s"}},
		"unknown":             {with(func(s *Sandbox) { s.State = SandboxUnknown }), false, SandboxChange{true, 4, "s"}},
		"two ready":           {[]Sandbox{ready, ready}, false, SandboxChange{true, 4, "s"}},
		"an old one beside":   {[]Sandbox{ready, {State: SandboxNotReady}}, false, SandboxChange{Attempt: 3, ID: "s"}},
		"other network":       {[]Sandbox{ready}, true, SandboxChange{true, 4, ""}},
		"address lost":        {with(func(s *Sandbox) { s.IPs = nil }), false, SandboxChange{true, 4, "s"}},
		"address not told":    {with(func(s *Sandbox) { s.IPs, s.HasNetworkStatus = nil, false }), false, SandboxChange{Attempt: 3, ID: "s"}},
		"host needs no other": {with(func(s *Sandbox) { s.IPs, s.HostNetwork = nil, true }), true, SandboxChange{Attempt: 3, ID: "s"}},
	} {
		require.Equal(t, c.want, (&PodStatus{Sandboxes: c.sandboxes}).SandboxChanged(c.host), name)
	}
}

func TestStrings(t *testing.T) {
	require.Equal(t, []string{"unknown", "created", "running", "exited"},
		[]string{StateUnknown.String(), StateCreated.String(), StateRunning.String(), StateExited.String()})
	require.Equal(t, []string{"unknown", "ready", "not ready"},
		[]string{SandboxUnknown.String(), SandboxReady.String(), SandboxNotReady.String()})
	require.Equal(t, []string{"generic", "evented"}, []string{Generic.String(), Evented.String()})
	require.Equal(t, []string{"none", "closed", "opening", "open", "unsupported"}, []string{StreamNone.String(),
		StreamClosed.String(), StreamOpening.String(), StreamOpen.String(), StreamUnsupported.String()})
	require.Equal(t, "u pod sync", Event{UID: "u", Type: PodSync}.String())
	require.Equal(t, "u died container web c1", Event{UID: "u", Type: Died, ID: "c1", Container: "web"}.String())
	require.Equal(t, "u started sandbox s1", Event{UID: "u", Type: Started, ID: "s1", Sandbox: true}.String())
}

// What a list shows of a pod and what a look at it shows agree on whether it has
// stopped, in every state.
func TestListAndLookAgreeOnStopped(t *testing.T) {
	for _, c := range []State{StateUnknown, StateCreated, StateRunning, StateExited} {
		for _, sb := range []SandboxState{SandboxUnknown, SandboxReady, SandboxNotReady} {
			s := &PodStatus{Containers: []ContainerStatus{{State: c}}, Sandboxes: []Sandbox{{State: sb}}}
			want := (c == StateCreated || c == StateExited) && sb == SandboxNotReady
			listed := ObservedFrom(s)
			require.Equal(t, want, s.Stopped(), "%s, %s", c, sb)
			require.Equal(t, want, listed.Stopped(), "%s, %s", c, sb)
			require.False(t, s.Empty())
		}
	}
	require.True(t, (&PodStatus{}).Stopped())
	require.True(t, (&PodStatus{}).Empty())
}
