package observe

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
)

// stub is a runtime with fixed objects. fail has the errors by object.
type stub struct {
	cri.RuntimeService
	sandboxes  []*runtimeapi.PodSandboxStatus
	containers []*runtimeapi.ContainerStatus
	fail       map[string]error
	blank      bool              // responses have no status
	bare       bool              // statuses have no labels
	stays      bool              // objects that are not found stay in the lists
	swap       map[string]string // the ID of the status by the requested ID

	mu    sync.Mutex
	asked []string
	gone  map[string]bool
}

// ask records a call and returns its error.
func (s *stub) ask(what string, verbose bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, what)
	if verbose {
		return errors.New("a verbose reply, which has no reader")
	}
	if cri.IsNotFound(s.fail[what]) && !s.stays {
		s.gone[what] = true
	}
	return s.fail[what]
}

// status returns the status that has the requested ID.
func statusOf[T interface{ GetId() string }](s *stub, all []T, id string) (found T) {
	for _, one := range all {
		if one.GetId() == cmp.Or(s.swap[id], id) && !s.blank {
			found = one
		}
	}
	return found
}

// bareCopy returns a copy of a status, without its labels if s.bare is set.
func bareCopy[T proto.Message](s *stub, status T, strip func(T)) T {
	if !s.bare || !status.ProtoReflect().IsValid() {
		return status
	}
	status = proto.Clone(status).(T)
	strip(status)
	return status
}

func (s *stub) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	var list []*runtimeapi.PodSandbox
	for _, sb := range s.sandboxes {
		if !s.gone[sb.Id] {
			list = append(list, &runtimeapi.PodSandbox{Id: sb.Id, Metadata: sb.Metadata, State: sb.State, CreatedAt: sb.CreatedAt, Labels: sb.Labels, Annotations: sb.Annotations})
		}
	}
	return list, s.ask("sandboxes", false)
}

func (s *stub) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	var list []*runtimeapi.Container
	for _, c := range s.containers {
		if !s.gone[c.Id] {
			list = append(list, &runtimeapi.Container{Id: c.Id, Metadata: c.Metadata, Image: c.Image, State: c.State, CreatedAt: c.CreatedAt, Labels: c.Labels})
		}
	}
	return list, s.ask("containers", false)
}

func (s *stub) PodSandboxStatus(_ context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	if err := s.ask(id, verbose); err != nil {
		return nil, err
	}
	status := bareCopy(s, statusOf(s, s.sandboxes, id), func(sb *runtimeapi.PodSandboxStatus) { sb.Labels = nil })
	return &runtimeapi.PodSandboxStatusResponse{Status: status}, nil
}

func (s *stub) ContainerStatus(_ context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	if err := s.ask(id, verbose); err != nil {
		return nil, err
	}
	status := bareCopy(s, statusOf(s, s.containers, id), func(c *runtimeapi.ContainerStatus) { c.Labels = nil })
	return &runtimeapi.ContainerStatusResponse{Status: status}, nil
}

// labelled returns the labels that a kubelet sets.
func labelled(name, container string) map[string]string {
	return map[string]string{labels.PodName: name, labels.PodNamespace: "ns", labels.PodUID: "1", labels.ContainerName: container}
}

func (s *stub) sandbox(id, name string, attempt uint32, created int64, ip string) *runtimeapi.PodSandboxStatus {
	sb := &runtimeapi.PodSandboxStatus{
		Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "ns", Uid: "1", Attempt: attempt}, CreatedAt: created,
		Labels: labelled(name, ""), Network: &runtimeapi.PodSandboxNetworkStatus{Ip: ip},
	}
	s.sandboxes = append(s.sandboxes, sb)
	return sb
}

func (s *stub) container(id, pod string, created int64) {
	s.containers = append(s.containers, &runtimeapi.ContainerStatus{
		Id: id, Metadata: &runtimeapi.ContainerMetadata{Name: "a"}, Image: &runtimeapi.ImageSpec{}, CreatedAt: created,
		State: runtimeapi.ContainerState_CONTAINER_RUNNING, Labels: labelled(pod, "a"),
	})
}

// rig has a pod with an old and a new sandbox. The container is newer than both.
func rig(t *testing.T) (*Observer, *stub) {
	s := &stub{fail: map[string]error{}, gone: map[string]bool{}}
	old := s.sandbox("old", "before", 1, 10, "10.0.0.1")
	old.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	old.Annotations = map[string]string{labels.AnnotationSource: "http"}
	s.sandbox("new", "now", 2, 20, "10.0.0.2").Annotations = map[string]string{labels.AnnotationSource: "file"}
	s.container("c", "container's", 30)
	o, err := New(Config{Runtime: s, RuntimeName: "fake", Owner: cri.Owner{Unlabelled: true}, NodeIPs: func() []string { return []string{"192.0.2.1"} }})
	require.NoError(t, err)
	return o, s
}

// leaving is a runtime whose callers leave during the call for a container.
type leaving struct {
	*stub
	leave func()
}

func (l leaving) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	defer l.leave()
	return l.stub.ContainerStatus(ctx, id, verbose)
}

// A termination message that may be incomplete, because the context ended, is an error.
func TestIncompleteTerminationMessage(t *testing.T) {
	_, s := rig(t)
	s.containers[0].State = runtimeapi.ContainerState_CONTAINER_EXITED
	ctx, cancel := context.WithCancel(t.Context())
	o, err := New(Config{Runtime: leaving{s, cancel}, RuntimeName: "fake", Owner: cri.Owner{Unlabelled: true}, NodeIPs: func() []string { return nil }})
	require.NoError(t, err)
	_, err = o.PodStatus(ctx, "1")
	require.ErrorContains(t, err, "termination message of container a (c)")
	require.ErrorIs(t, err, context.Canceled)
}

func TestListPods(t *testing.T) {
	o, s := rig(t)
	pods, err := o.ListPods(t.Context())
	require.NoError(t, err)
	require.Len(t, pods, 1)
	require.Equal(t, "now", pods[0].Name, "that of the newest sandbox")
	require.Equal(t, "file", pods[0].Source)
	require.Equal(t, time.Unix(0, 30).UTC(), pods[0].CreatedAt.UTC(), "the newest of all that the pod has")
	require.Len(t, pods[0].Sandboxes, 2)
	require.Len(t, pods[0].Containers, 1)
	for _, what := range []string{"sandboxes", "containers"} {
		s.fail = map[string]error{what: errors.New("away")}
		_, err = o.ListPods(t.Context())
		require.ErrorIs(t, err, s.fail[what])
		_, err = o.PodStatus(t.Context(), "1")
		require.ErrorIs(t, err, s.fail[what])
	}
}

// C49: objects that disappear after they were listed are skipped; any other failure is an error.
func TestPodStatus(t *testing.T) {
	gone := status.Error(codes.NotFound, "gone")
	o, s := rig(t)
	got, err := o.PodStatus(t.Context(), "1")
	require.NoError(t, err)
	require.Equal(t, "now", got.Name)
	require.Equal(t, "file", got.Source)
	require.Equal(t, "file", got.Listed().Source)
	require.Equal(t, []string{"10.0.0.2"}, got.IPs)

	s.fail = map[string]error{"old": gone, "c": gone}
	got, err = o.PodStatus(t.Context(), "1")
	require.NoError(t, err)
	require.Len(t, got.Sandboxes, 1)
	require.Empty(t, got.Containers)
	clear(s.gone)
	for _, id := range []string{"old", "new", "c"} {
		s.fail = map[string]error{id: errors.New("away")}
		_, err = o.PodStatus(t.Context(), "1")
		require.ErrorIs(t, err, s.fail[id])
	}

	s.fail, s.sandboxes = nil, nil
	got, err = o.PodStatus(t.Context(), "1")
	require.NoError(t, err)
	require.Equal(t, "container's", got.Name, "without a sandbox that of a container")
	require.Empty(t, got.IPs)
	_, err = o.PodStatus(t.Context(), "")
	require.Error(t, err)
}

// Each object is read only once, because each call costs the runtime time. This also holds for a
// runtime that lists objects repeatedly.
func TestObjectsAreReadOnce(t *testing.T) {
	o, s := rig(t)
	_, err := o.ListPods(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"sandboxes", "containers"}, s.asked)
	s.asked = nil
	_, err = o.PodStatus(t.Context(), "1")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"sandboxes", "containers", "old", "new", "c"}, s.asked)

	s.sandboxes, s.containers = append(s.sandboxes, s.sandboxes...), append(s.containers, s.containers...)
	s.asked = nil
	got, err := o.PodStatus(t.Context(), "1")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"sandboxes", "containers", "old", "new", "c"}, s.asked)
	require.False(t, got.SandboxChanged(false).Changed)
	pods, err := o.ListPods(t.Context())
	require.NoError(t, err)
	require.Len(t, pods[0].Sandboxes, 2)
	require.Len(t, pods[0].Containers, 1)
}

// A reply about another object, or a list that contradicts it, is an error: taken as the pod's
// state, it would stop containers of other pods or start them again.
func TestInconsistentReplies(t *testing.T) {
	gone := status.Error(codes.NotFound, "gone")
	noSandbox := func(change func(*stub)) func(*stub) {
		return func(s *stub) { s.sandboxes = nil; change(s) }
	}
	for want, change := range map[string]func(*stub){
		`status of sandbox old: the runtime's reply has no status`:                  func(s *stub) { s.blank = true },
		`status of container a (c): the runtime's reply has no status`:              noSandbox(func(s *stub) { s.blank = true }),
		`status of sandbox new: the runtime's reply is about "old"`:                 func(s *stub) { s.swap = map[string]string{"new": "old"} },
		`status of container a (c): the runtime's reply is about "d"`:               func(s *stub) { s.container("d", "now", 40); s.swap = map[string]string{"c": "d"} },
		`sandbox new: the runtime's reply has the label io.kubernetes.pod.uid="", `: func(s *stub) { s.bare = true },
		`container a (c): the runtime's reply has the label io.kubernetes.pod.uid`:  noSandbox(func(s *stub) { s.bare = true }),
		`sandbox "new": listed for the pod without`:                                 func(s *stub) { s.sandboxes[1].Labels = map[string]string{labels.PodUID: "2"} },
		`sandbox "old": listed for the pod without`:                                 func(s *stub) { s.sandboxes[0].Metadata = nil },
		`container "c": listed for the pod without`:                                 func(s *stub) { s.containers[0].Image = nil },
		`status of sandbox new: not found, but the runtime still lists it`:          func(s *stub) { s.stays, s.fail["new"] = true, gone },
		`status of container c: not found, but the runtime still lists it`:          func(s *stub) { s.stays, s.fail["c"] = true, gone },
	} {
		o, s := rig(t)
		change(s)
		_, err := o.PodStatus(t.Context(), "1")
		require.ErrorContains(t, err, want)
	}
}

func TestPodStatusOfSandboxThatIsNotReady(t *testing.T) {
	o, s := rig(t)
	s.sandboxes[1].State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	got, err := o.PodStatus(t.Context(), "1")
	require.NoError(t, err)
	require.Empty(t, got.IPs)
}

func TestPodIPs(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
	for name, c := range map[string]struct {
		change func(*stub)
		want   []string
		fails  bool
	}{
		"newest":    {func(*stub) {}, []string{"10.0.0.2"}, false},
		"node":      {func(s *stub) { hostNetwork(s.sandboxes[1]) }, []string{"192.0.2.1"}, false},
		"not ready": {func(s *stub) { s.sandboxes[1].State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }, nil, false},
		"none":      {func(s *stub) { s.sandboxes = nil }, nil, false},
		"gone":      {func(s *stub) { s.fail["new"] = status.Error(codes.NotFound, "gone") }, nil, false},
		"no list":   {func(s *stub) { s.fail["sandboxes"] = errors.New("away") }, nil, true},
		"no status": {func(s *stub) { s.fail["new"] = errors.New("away") }, nil, true},
		"another":   {func(s *stub) { s.swap = map[string]string{"new": "old"} }, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			o, s := rig(t)
			c.change(s)
			got, err := o.PodIPs(t.Context(), pod)
			require.Equal(t, c.fails, err != nil)
			require.Equal(t, c.want, got)
		})
	}
}

func hostNetwork(sb *runtimeapi.PodSandboxStatus) {
	sb.Linux = &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}}}
}

// Without NodeIPs a host-network pod has no addresses.
func TestPodIPsOfAnUnknownNode(t *testing.T) {
	o, s := rig(t)
	o.cfg.NodeIPs = nil
	hostNetwork(s.sandboxes[1])
	got, err := o.PodIPs(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}})
	require.NoError(t, err)
	require.Empty(t, got)
}
