package cri

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// mandatory returns, by call, the mandatory fields of a reply and the field in the error when one
// is missing.
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

// A reply without one field is invalid only if that field is mandatory. Empty and nil replies lack
// their mandatory fields.
func TestRepliesThatLackAField(t *testing.T) {
	lacking := mandatory()
	for _, c := range everyCall {
		reply := proto.Clone(c.reply)
		fill(reply.ProtoReflect())
		require.NoError(t, checkReply(c.name, reply), c.name)
		got := map[string]string{}
		for _, field := range fieldsOf(reply.ProtoReflect()) {
			if err := checkReply(c.name, without(reply, field)); err != nil {
				got[field] = requireReplyError(t, err, c.name).Field
			}
		}
		want := lacking[c.name]
		if want == nil {
			want = map[string]string{}
		}
		require.Equal(t, want, got, c.name)
		delete(lacking, c.name)

		needed := len(want) > 0 && c.name != "ImageStatus" // a reply without image means that the image is absent
		kind := reflect.TypeOf(reply)
		for _, empty := range []reflect.Value{reflect.New(kind.Elem()), reflect.Zero(kind)} {
			require.Equal(t, needed, checkReply(c.name, empty.Interface()) != nil, c.name)
		}
	}
	require.Empty(t, lacking)
}

func requireReplyError(t *testing.T, err error, call string) *ReplyError {
	t.Helper()
	var e *ReplyError
	require.ErrorAs(t, err, &e)
	require.Equal(t, call, e.Call)
	require.NotEmpty(t, e.Problem)
	require.ErrorContains(t, err, "invalid reply: "+e.Field+" ")
	return e
}

// fill sets all unset fields of a message and of the messages within it, except lists and maps.
func fill(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		switch {
		case field.IsList() || field.IsMap():
		case field.Message() != nil:
			fill(m.Mutable(field).Message())
		case m.Has(field):
		case field.Kind() == protoreflect.StringKind:
			m.Set(field, protoreflect.ValueOfString("x"))
		case field.Kind() == protoreflect.BoolKind:
			m.Set(field, protoreflect.ValueOfBool(true))
		case field.Kind() == protoreflect.Int64Kind:
			m.Set(field, protoreflect.ValueOfInt64(1))
		}
	}
}

// fieldsOf returns the paths of all set fields of a message and of the messages within it. A list
// or map counts as one field.
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

// without returns a copy of a message without the field at a path.
func without(m proto.Message, field string) proto.Message {
	m = proto.Clone(m)
	at := m.ProtoReflect()
	names := strings.Split(field, ".")
	for _, name := range names[:len(names)-1] {
		at = at.Mutable(at.Descriptor().Fields().ByName(protoreflect.Name(name))).Message()
	}
	at.Clear(at.Descriptor().Fields().ByName(protoreflect.Name(names[len(names)-1])))
	return m
}

func TestOddValuesInReplies(t *testing.T) {
	version := func(set func(*runtimeapi.VersionResponse)) proto.Message {
		reply := goodVersion()
		set(reply)
		return reply
	}
	conditions := func(kinds ...string) proto.Message {
		reply := &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{}}
		for _, kind := range kinds {
			reply.Status.Conditions = append(reply.Status.Conditions, &runtimeapi.RuntimeCondition{Type: kind, Status: true})
		}
		return reply
	}
	for name, c := range map[string]struct {
		call, field string
		reply       proto.Message
	}{
		"a newer version":          {"Version", "version", version(func(v *runtimeapi.VersionResponse) { v.Version = "0.2.0" })},
		"the API's version":        {"Version", "version", version(func(v *runtimeapi.VersionResponse) { v.Version = "v1" })},
		"a version with a space":   {"Version", "version", version(func(v *runtimeapi.VersionResponse) { v.Version = "0.1.0 " })},
		"any runtime API version":  {"Version", "", version(func(v *runtimeapi.VersionResponse) { v.RuntimeApiVersion = "v7" })},
		"no conditions":            {"Status", "status.conditions", conditions()},
		"only the runtime's":       {"Status", "status.conditions", conditions(runtimeapi.RuntimeReady)},
		"only the network's":       {"Status", "status.conditions", conditions(runtimeapi.NetworkReady)},
		"one condition twice":      {"Status", "status.conditions", conditions(runtimeapi.RuntimeReady, runtimeapi.RuntimeReady)},
		"conditions of other kind": {"Status", "status.conditions", conditions("DiskReady", runtimeapi.NetworkReady)},
		"more conditions":          {"Status", "", conditions("DiskReady", runtimeapi.NetworkReady, runtimeapi.RuntimeReady)},
	} {
		err := checkReply(c.call, c.reply)
		if c.field == "" {
			require.NoError(t, err, name)
			continue
		}
		require.Equal(t, c.field, requireReplyError(t, err, c.call).Field, name)
	}
}

func TestBadReplyFailsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := bothClients(t)
		s.reply("CreateContainer", &runtimeapi.CreateContainerResponse{})
		_, err := n.runtime.CreateContainer(t.Context(), "s", nil, nil)
		requireCallError(t, err, "CreateContainer", "s")
		require.Equal(t, "container_id", requireReplyError(t, err, "CreateContainer").Field)
		require.Equal(t, codes.Unknown, status.Code(err))
	})
}

// DialRuntime refuses a runtime with another version.
func TestDialRefusesAnUnsupportedVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		reply := goodVersion()
		reply.Version = "0.2.0"
		s.reply("Version", reply)
		client, err := DialRuntime(t.Context(), s.inMemory(t))
		require.Nil(t, client)
		require.EqualError(t, err, `runtime unix:///run/scripted.sock: Version: invalid reply: version is "0.2.0", want "0.1.0"`)
	})
}
