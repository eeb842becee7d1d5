package fake

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// maxLabel bounds the total size of a label's key and value, as in containerd. Annotations have
	// no separate bound.
	maxLabel    = 4096
	maxHostname = 64
)

func checkSandboxConfig(config *runtimeapi.PodSandboxConfig) error {
	m := config.GetMetadata()
	if m.GetName() == "" {
		return status.Error(codes.InvalidArgument, "sandbox config must include metadata with a name")
	}
	if n := len(config.GetHostname()); n > maxHostname {
		return status.Errorf(codes.Unknown, "failed to create containerd task: sethostname: invalid argument: %d bytes", n)
	}
	return firstError(
		checkText("sandbox metadata", m.GetName(), m.GetNamespace(), m.GetUid()),
		checkLabels(config.GetLabels()), checkTexts("annotation", config.GetAnnotations()),
	)
}

// checkContainerConfig returns an error for invalid arguments of CreateContainer. The sandbox
// config is required: containerd 2.2 refuses a call without it, and containerd 1.6 crashes.
func checkContainerConfig(config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) error {
	switch {
	case config.GetMetadata().GetName() == "":
		return status.Error(codes.InvalidArgument, "container config must include metadata with a name")
	case config.GetImage().GetImage() == "":
		return status.Error(codes.InvalidArgument, "container config must name an image")
	case sandboxConfig.GetMetadata() == nil:
		return status.Error(codes.InvalidArgument, "pod sandbox config must include metadata")
	}
	return firstError(
		checkText("container metadata", config.GetMetadata().GetName()),
		checkLabels(config.GetLabels()), checkTexts("annotation", config.GetAnnotations()),
	)
}

func needImage(image *runtimeapi.ImageSpec) error {
	if image.GetImage() == "" {
		return status.Error(codes.InvalidArgument, `can not resolve "" locally: ambiguous digest string`)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkLabels(labels map[string]string) error {
	for key, value := range labels {
		if n := len(key) + len(value); n > maxLabel {
			return status.Errorf(codes.InvalidArgument,
				"failed to create containerd container: label key and value length (%d bytes) greater than maximum size (%d bytes), key: %.40s: invalid argument", n, maxLabel, key)
		}
		if err := checkPair("label", key, value); err != nil {
			return err
		}
	}
	return nil
}

// checkTexts refuses texts that protobuf cannot encode, so that in-process calls fail as over gRPC.
func checkTexts(kind string, texts map[string]string) error {
	for key, value := range texts {
		if err := checkPair(kind, key, value); err != nil {
			return err
		}
	}
	return nil
}

func checkPair(kind, key, value string) error {
	if utf8.ValidString(key) && utf8.ValidString(value) {
		return nil
	}
	return checkText(fmt.Sprintf("%s %q", kind, key), key, value)
}

func checkText(field string, texts ...string) error {
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return status.Errorf(codes.Internal, "grpc: error while marshaling: string field contains invalid UTF-8: %s", field)
		}
	}
	return nil
}
