package pods

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/pleg/observed"
)

// A request without its parts, the status of another pod, and a pod without UID, name or
// namespace, are refused, and nothing is done with them.
func TestIdentityIsChecked(t *testing.T) {
	h := newHarness(t, fake.Config{})
	other := testPod("b")
	other.UID, other.Name = "0ther", "other"
	h.mustSync(other)
	h.runtime.take()
	theirs := h.status(other)
	nothing := &observed.Pod{UID: testPod("a").UID}
	for name, tc := range map[string]struct {
		change func(*v1.Pod)
		status *observed.Pod
		fails  string
	}{
		"status of another": {func(*v1.Pod) {}, theirs, `Status is of another pod: its UID is "0ther"`},
		"status of nobody":  {func(*v1.Pod) {}, &observed.Pod{}, `Status is of another pod: its UID is ""`},
		"no UID":            {func(p *v1.Pod) { p.UID = "" }, nothing, "Pod.UID is required"},
		"neither has a UID": {func(p *v1.Pod) { p.UID = "" }, &observed.Pod{}, "Pod.UID is required"},
		"no name":           {func(p *v1.Pod) { p.Name = "" }, nothing, "Pod.Name is required"},
		"no namespace":      {func(p *v1.Pod) { p.Namespace = "" }, nothing, "Pod.Namespace is required"},
		"no status":         {func(*v1.Pod) {}, nil, "Request.Status"},
	} {
		pod := testPod("a")
		tc.change(pod)
		require.ErrorContains(t, h.m.SyncPod(t.Context(), SyncRequest{Pod: pod, Status: tc.status}).Err(), tc.fails, name)
		require.ErrorContains(t, h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: tc.status}).Err(), tc.fails, name)
	}
	nobodys := *theirs
	nobodys.UID = ""
	require.ErrorContains(t, h.m.KillPod(t.Context(), KillRequest{Status: &nobodys}).Err(), "Status.UID is required")
	require.ErrorContains(t, h.garbage.RemovePod(t.Context(), "0d1e", theirs), "of another pod")
	require.ErrorContains(t, h.garbage.RemovePod(t.Context(), "", &nobodys), "Status.UID is required")
	require.ErrorContains(t, h.garbage.RemovePod(t.Context(), "0d1e", nil), "Status is required")
	require.ErrorContains(t, h.garbage.CleanDeadContainers(t.Context(), garbage.CleanRequest{Status: &nobodys, All: true}), "Status.UID is required")
	require.ErrorContains(t, h.garbage.CleanDeadContainers(t.Context(), garbage.CleanRequest{}), "Status is required")
	_, err := h.seen.PodIPs(t.Context(), nil)
	require.ErrorContains(t, err, "no UID")
	require.Empty(t, h.runtime.take())
	require.Len(t, h.status(other).Running(), 1)
}
