package cri_test

import (
	"context"
	"path"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// forger stands between the fake and the wire and changes replies.
type forger struct {
	mu   sync.Mutex
	edit map[string]func(proto.Message) proto.Message // by call
	last map[string]proto.Message                     // the honest replies
}

func newForger() *forger {
	return &forger{edit: map[string]func(proto.Message) proto.Message{}, last: map[string]proto.Message{}}
}

// forge changes the replies of a call from now on; nil changes none.
func (f *forger) forge(call string, edit func(proto.Message) proto.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.edit[call] = edit
}

func (f *forger) honest(call string) proto.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last[call]
}

func (f *forger) options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(f.intercept)}
}

func (f *forger) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	call := path.Base(info.FullMethod)
	reply, err := handler(ctx, request)
	if err != nil {
		// Not every runtime has every call, but this is about replies.
		if reply = madeUp(call); reply == nil {
			return nil, err
		}
	}
	message := proto.Clone(reply.(proto.Message))
	f.mu.Lock()
	f.last[call] = message
	edit := f.edit[call]
	f.mu.Unlock()
	if edit == nil {
		return message, nil
	}
	return edit(proto.Clone(message)), nil
}

// madeUp are good replies to calls that a runtime may lack.
func madeUp(call string) proto.Message {
	switch call {
	case "Exec":
		return &runtimeapi.ExecResponse{Url: "http://127.0.0.1:1/exec"}
	case "Attach":
		return &runtimeapi.AttachResponse{Url: "http://127.0.0.1:1/attach"}
	case "PortForward":
		return &runtimeapi.PortForwardResponse{Url: "http://127.0.0.1:1/portforward"}
	}
	return nil
}

// without clears a field, given by its path in the protobuf definition.
func without(field string) func(proto.Message) proto.Message {
	return func(m proto.Message) proto.Message {
		at := m.ProtoReflect()
		names := strings.Split(field, ".")
		for _, name := range names[:len(names)-1] {
			at = at.Mutable(at.Descriptor().Fields().ByName(protoreflect.Name(name))).Message()
		}
		at.Clear(at.Descriptor().Fields().ByName(protoreflect.Name(names[len(names)-1])))
		return m
	}
}

// fieldsOf are the paths of all fields that are set in a message and in the
// messages within it. Lists and maps count as one.
func fieldsOf(m protoreflect.Message) []string {
	var paths []string
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		paths = append(paths, string(field.Name()))
		if field.Message() != nil && !field.IsList() && !field.IsMap() {
			for _, inner := range fieldsOf(value.Message()) {
				paths = append(paths, string(field.Name())+"."+inner)
			}
		}
		return true
	})
	return paths
}

// mandatory are the fields that replies need, and what the error names when they
// are missing.
func mandatory() map[string]map[string]string {
	itself := func(fields ...string) map[string]string {
		m := map[string]string{}
		for _, field := range fields {
			m[field] = field
		}
		return m
	}
	container := itself("status", "status.id", "status.metadata", "status.metadata.name", "status.created_at",
		"status.image.image", "status.image_ref")
	container["status.image"] = "status.image.image"
	return map[string]map[string]string{
		"Version":       itself("version", "runtime_name", "runtime_version", "runtime_api_version"),
		"Status":        {"status": "status.conditions", "status.conditions": "status.conditions"},
		"RunPodSandbox": itself("pod_sandbox_id"),
		"PodSandboxStatus": itself("status", "status.id", "status.metadata", "status.metadata.name",
			"status.metadata.namespace", "status.metadata.uid", "status.created_at"),
		"CreateContainer": itself("container_id"),
		"ContainerStatus": container,
		"ContainerStats":  itself("stats"),
		"PodSandboxStats": itself("stats"),
		"Exec":            itself("url"),
		"Attach":          itself("url"),
		"PortForward":     itself("url"),
		"ImageStatus":     itself("image.id", "image.size"),
		"PullImage":       itself("image_ref"),
	}
}

// repliedCalls are the calls with a reply that the fake gives.
func repliedCalls(t *testing.T) map[string]proto.Message {
	replied := map[string]proto.Message{}
	for _, c := range everyCall() {
		synctest.Test(t, func(t *testing.T) {
			f := newForger()
			n := newNode(t, nodeConfig{server: f.options()})
			if c.name != "GetContainerEvents" && c.make(t.Context(), n) == nil {
				replied[c.name] = f.honest(c.name)
			}
		})
	}
	return replied
}

// Each field of each reply is left out once. The call fails if the field is
// mandatory and works otherwise, and nothing else is affected.
func TestRepliesThatLackAField(t *testing.T) {
	lacking := mandatory()
	for name, reply := range repliedCalls(t) {
		fields := fieldsOf(reply.ProtoReflect())
		for field := range lacking[name] {
			require.Contains(t, fields, field, "what the fake answers to %s", name)
		}
		for _, field := range fields {
			t.Run(name+"/"+field, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					requireForged(t, name, without(field), lacking[name][field])
				})
			})
		}
		delete(lacking, name)
	}
	require.Empty(t, lacking, "calls that the fake does not answer")
}

// requireForged makes a call whose reply is forged. It fails and names the field,
// or works if field is "". Then it works with an honest reply.
func requireForged(t *testing.T, call string, edit func(proto.Message) proto.Message, field string) {
	t.Helper()
	f := newForger()
	n := newNode(t, nodeConfig{server: f.options()})
	c := callNamed(t, call)
	f.forge(call, edit)
	err := c.make(t.Context(), n)
	n.requireHealthy(t)
	if field == "" {
		require.NoError(t, err)
		return
	}
	var e *cri.ReplyError
	require.ErrorAs(t, err, &e)
	require.Equal(t, call, e.Call)
	require.Equal(t, field, e.Field)
	require.NotEmpty(t, e.Problem)
	requireCallFailed(t, err, call, c.objectOf(n))
	require.ErrorContains(t, err, "invalid reply: "+field+" ")

	f.forge(call, nil)
	if call != "RunPodSandbox" && call != "CreateContainer" { // those have been done
		require.NoError(t, c.make(t.Context(), n))
	}
}

// A reply may be empty, a message that is nil, or no message at all: on the wire
// all are the same.
func TestEmptyReplies(t *testing.T) {
	// What is missed first; calls that are not here may be answered by nothing.
	want := map[string]string{
		"Version": "version", "Status": "status.conditions", "RunPodSandbox": "pod_sandbox_id", "PodSandboxStatus": "status",
		"CreateContainer": "container_id", "ContainerStatus": "status", "ContainerStats": "stats", "PodSandboxStats": "stats",
		"Exec": "url", "Attach": "url", "PortForward": "url", "PullImage": "image_ref",
	}
	for name := range repliedCalls(t) {
		for kind, edit := range map[string]func(proto.Message) proto.Message{
			"empty": func(m proto.Message) proto.Message { proto.Reset(m); return m },
			"nil": func(m proto.Message) proto.Message {
				return reflect.Zero(reflect.TypeOf(m)).Interface().(proto.Message)
			},
			"none": func(proto.Message) proto.Message { return nil },
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { requireForged(t, name, edit, want[name]) })
			})
		}
	}
}

// The same by a script.
func TestEmptyReplyByScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nodeConfig{script: "1st CreateContainer of container second: empty reply\n2nd ContainerStatus of container app: empty reply"})
		c := callNamed(t, "CreateContainer")
		var e *cri.ReplyError
		require.ErrorAs(t, c.make(t.Context(), n), &e)
		require.Equal(t, "container_id", e.Field)
		require.NoError(t, c.make(t.Context(), n))
		status := callNamed(t, "ContainerStatus")
		require.NoError(t, status.make(t.Context(), n))
		require.ErrorAs(t, status.make(t.Context(), n), &e)
		require.NoError(t, status.make(t.Context(), n))
	})
}

func TestOddValuesInReplies(t *testing.T) {
	set := func(change func(*runtimeapi.VersionResponse)) func(proto.Message) proto.Message {
		return func(m proto.Message) proto.Message { change(m.(*runtimeapi.VersionResponse)); return m }
	}
	conditions := func(kinds ...string) func(proto.Message) proto.Message {
		return func(m proto.Message) proto.Message {
			status := m.(*runtimeapi.StatusResponse).Status
			status.Conditions = nil
			for _, kind := range kinds {
				status.Conditions = append(status.Conditions, &runtimeapi.RuntimeCondition{Type: kind, Status: true})
			}
			return m
		}
	}
	for name, c := range map[string]struct {
		call, field string
		edit        func(proto.Message) proto.Message
	}{
		"a newer version":          {"Version", "version", set(func(v *runtimeapi.VersionResponse) { v.Version = "0.2.0" })},
		"the API's version":        {"Version", "version", set(func(v *runtimeapi.VersionResponse) { v.Version = "v1" })},
		"a version with a space":   {"Version", "version", set(func(v *runtimeapi.VersionResponse) { v.Version = "0.1.0 " })},
		"any runtime API version":  {"Version", "", set(func(v *runtimeapi.VersionResponse) { v.RuntimeApiVersion = "v7" })},
		"no conditions":            {"Status", "status.conditions", conditions()},
		"only the runtime's":       {"Status", "status.conditions", conditions(runtimeapi.RuntimeReady)},
		"only the network's":       {"Status", "status.conditions", conditions(runtimeapi.NetworkReady)},
		"one condition twice":      {"Status", "status.conditions", conditions(runtimeapi.RuntimeReady, runtimeapi.RuntimeReady)},
		"conditions of other kind": {"Status", "status.conditions", conditions("DiskReady", runtimeapi.NetworkReady)},
		"more conditions":          {"Status", "", conditions("DiskReady", runtimeapi.NetworkReady, runtimeapi.RuntimeReady)},
		"an absent image":          {"ImageStatus", "", without("image")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { requireForged(t, c.call, c.edit, c.field) })
		})
	}
}

// Dialling refuses a runtime that does not say what it is.
func TestDialChecksTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newForger()
		n := newServer(t, nodeConfig{server: f.options()})
		f.forge("Version", without("runtime_name"))
		_, err := cri.DialRuntime(t.Context(), n.cfg)
		var e *cri.ReplyError
		require.ErrorAs(t, err, &e)
		require.Equal(t, "runtime_name", e.Field)
	})
}

// One odd entry of a list does not hide the others.
func TestOddEntriesOfLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newForger()
		n := newNode(t, nodeConfig{server: f.options()})
		f.forge("ListContainers", func(m proto.Message) proto.Message {
			list := m.(*runtimeapi.ListContainersResponse)
			list.Containers = append(list.Containers, &runtimeapi.Container{}, nil)
			return m
		})
		list, err := n.runtime.ListContainers(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, list, 3)
		require.Equal(t, n.container, list[0].Id)
		require.NotNil(t, list[2])
	})
}
