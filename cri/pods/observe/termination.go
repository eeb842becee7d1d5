package observe

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/internal/fs"
)

// The limits of a termination message, from its file and from the log.
const (
	maxMessageBytes    = 4096
	maxMessageLogLines = 80
	maxMessageLogBytes = 2048
)

// terminationMessage returns the termination message of an exited container: the content of its
// file, or, if the policy allows it and the container failed, the end of its log. Invalid UTF-8
// is replaced as in the API server, so that the written status equals the status read back.
func terminationMessage(ctx context.Context, s *runtimeapi.ContainerStatus) string {
	return strings.ToValidUTF8(leftMessage(ctx, s), "\uFFFD")
}

func leftMessage(ctx context.Context, s *runtimeapi.ContainerStatus) string {
	message := ""
	if path := podfiles.TerminationFile(s); path != "" {
		b, err := readTail(path, maxMessageBytes)
		if err != nil && !os.IsNotExist(err) {
			return fmt.Sprintf("Error on reading termination message: %v", err)
		}
		message = string(b)
	}
	policy := v1.TerminationMessagePolicy(s.Annotations[labels.AnnotationTerminationMessagePolicy])
	fallBack := policy == v1.TerminationMessageFallbackToLogsOnError && s.ExitCode != 0 && s.Reason != "ContainerCannotRun"
	if message != "" || !fallBack {
		return message
	}
	tail, err := logs.Tail(ctx, s.LogPath, maxMessageLogLines, maxMessageLogBytes)
	if err != nil {
		return ""
	}
	return tail
}

// readTail returns the last n bytes of a regular file.
func readTail(path string, n int64) ([]byte, error) {
	f, err := fs.OpenPlain(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	start := max(0, info.Size()-n)
	return io.ReadAll(io.NewSectionReader(f, start, n))
}
