package fake

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestCopies compares the copies made by hand with those of proto.Clone, in
// messages in which every field is set, also one that a later CRI adds, and
// then changes everything in the original, which the copy must not see.
func TestCopies(t *testing.T) {
	for _, c := range []struct {
		message proto.Message
		copy    func(proto.Message) proto.Message
	}{
		{&runtimeapi.ContainerConfig{}, func(m proto.Message) proto.Message {
			config := m.(*runtimeapi.ContainerConfig)
			return (&container{config: copyContainerConfig(config), env: envOf(config.Envs)}).fullConfig()
		}},
		{&runtimeapi.Mount{}, func(m proto.Message) proto.Message {
			return copyMounts([]*runtimeapi.Mount{m.(*runtimeapi.Mount)})[0]
		}},
		{&runtimeapi.LinuxContainerResources{}, func(m proto.Message) proto.Message {
			return copyResources(m.(*runtimeapi.LinuxContainerResources))
		}},
	} {
		t.Run(string(c.message.ProtoReflect().Descriptor().Name()), func(t *testing.T) {
			empty := c.copy(c.message)
			require.True(t, proto.Equal(c.message, empty), "%v", empty)
			set := 0
			setAll(c.message.ProtoReflect(), &set)
			want, got := proto.Clone(c.message), c.copy(c.message)
			require.True(t, proto.Equal(want, got), "want %v\ngot  %v", want, got)
			before := set
			setAll(c.message.ProtoReflect(), &set)
			require.False(t, proto.Equal(want, c.message))
			require.Equal(t, 2*before, set)
			require.True(t, proto.Equal(want, got), "shared with the original: want %v\ngot  %v", want, got)
		})
	}
	require.Nil(t, copyResources(nil))
	require.Equal(t, []string{"="}, envOf([]*runtimeapi.KeyValue{nil}))
}

// setAll gives every field of m a value that it did not have, in place where
// there is one, and counts the values in n.
func setAll(m protoreflect.Message, n *int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		switch f := fields.Get(i); {
		case f.IsMap():
			for _, key := range []string{"a", "b"} {
				m.Mutable(f).Map().Set(protoreflect.ValueOfString(key).MapKey(), scalar(f.MapValue(), n))
			}
		case f.IsList():
			list := m.Mutable(f).List()
			for at := range 2 {
				if list.Len() <= at {
					list.Append(list.NewElement())
				}
				if f.Message() != nil {
					setAll(list.Get(at).Message(), n)
				} else {
					list.Set(at, scalar(f, n))
				}
			}
		case f.Message() != nil:
			setAll(m.Mutable(f).Message(), n)
		case f.Kind() == protoreflect.BytesKind && len(m.Get(f).Bytes()) > 0:
			m.Get(f).Bytes()[0]++
			*n++
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(!m.Get(f).Bool()))
			*n++
		default:
			m.Set(f, scalar(f, n))
		}
	}
}

// scalar makes a value, not zero, that differs from the one made before it.
func scalar(f protoreflect.FieldDescriptor, n *int) protoreflect.Value {
	*n++
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprint("text ", *n))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(fmt.Append(nil, "bytes ", *n))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(*n))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(*n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(*n))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(*n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(*n))
	}
	panic(fmt.Sprintf("no value for %v", f.FullName()))
}
