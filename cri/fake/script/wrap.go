package script

import (
	"context"
	"reflect"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// services implements both services by handing each call to around, or to stream.
type services struct {
	runtime cri.RuntimeService
	images  cri.ImageService
	around  func(ctx context.Context, x *exchange) error
	stream  func(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error
}

// Lacks is what the wrapped service says about a call that it may lack, nil where
// it says nothing. The fake's server asks, see fake.Register: whether lists can be
// streamed is no call that is played.
func (s *services) Lacks(call string) error {
	var service any = s.runtime
	if call == "StreamImages" {
		service = s.images
	}
	if wrapped, ok := service.(interface{ Lacks(call string) error }); ok {
		return wrapped.Lacks(call)
	}
	return nil
}

// exchange is one call under way.
type exchange struct {
	call  string
	about about
	// do performs the call and keeps its reply, clear empties the reply, and
	// reply returns it.
	do    func(ctx context.Context) error
	clear func()
	reply func() any
}

// about is what a request says about its object.
type about struct {
	container, sandbox string // IDs
	pod                *runtimeapi.PodSandboxConfig
	config             *runtimeapi.ContainerConfig
	image              string
}

// through makes a call by way of around.
func through[T any](ctx context.Context, s *services, call string, about about, do func(context.Context) (T, error)) (T, error) {
	var reply T
	x := &exchange{
		call: call, about: about,
		do: func(ctx context.Context) (err error) {
			reply, err = do(ctx)
			return err
		},
		clear: func() { reply = emptyReply[T]() },
		reply: func() any { return reply },
	}
	err := s.around(ctx, x)
	return reply, err
}

// emptyReply is a message without content, not a nil that callers do not expect.
func emptyReply[T any]() T {
	var empty T
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		empty, _ = reflect.New(t.Elem()).Interface().(T)
	}
	return empty
}

// nothing is the reply of calls that only succeed or fail.
type nothing struct{}

func throughNothing(ctx context.Context, s *services, call string, about about, do func(context.Context) error) error {
	_, err := through(ctx, s, call, about, func(ctx context.Context) (nothing, error) { return nothing{}, do(ctx) })
	return err
}

// imageName is the image as the caller knows it; runtimes are given IDs, too.
func imageName(image *runtimeapi.ImageSpec) string {
	if name := image.GetUserSpecifiedImage(); name != "" {
		return name
	}
	return image.GetImage()
}
