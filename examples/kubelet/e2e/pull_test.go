package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// C23 and C24: an image that is not there is a reason with a message; another
// pod starts meanwhile, and the pod can be removed while it waits.
func TestImageCannotBePulled(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		image := s.images.Registry + "/podwright/no-such-image:v1"
		s.place(t, "missing.yaml", newPod("missing", testprog(image, "run"), shell("second", s.images.Busybox, untilTerm)))
		s.place(t, "never.yaml", newPod("never", v1.Container{Name: "main", Image: image, ImagePullPolicy: v1.PullNever}))
		s.place(t, "other.yaml", newPod("other", testprog(s.images.Testprog, "run")))

		s.running(t, "other")
		s.waiting(t, "never", image, "ErrImageNeverPull")
		s.waiting(t, "missing", image, "ErrImagePull", "ImagePullBackOff")
		p, second, err := s.container("missing", "second")
		require.NoError(t, err)
		require.NotNil(t, second.State.Running, "the pod's other container runs: %s", brief(p))
		require.Equal(t, v1.PodPending, p.Status.Phase)

		s.unplace(t, "missing.yaml")
		wait(t, 10*time.Second, "missing goes", func() error { return s.gone("missing", string(p.UID)) })
		require.NoError(t, s.isRunning("other"))

		// Once the manifest names an image that is there, nothing of the backoff is
		// left.
		s.place(t, "never.yaml", newPod("never", testprog(s.images.Testprog, "run")))
		s.running(t, "never")
	})
}

// waiting waits until the container main has been seen to wait for each of the
// reasons, with a message that names the image. Between a failed pull and the next
// try one of them may be there for a moment only; the next try is due after 10 s.
func (s *scene) waiting(t *testing.T, pod, image string, reasons ...string) {
	t.Helper()
	seen := map[string]bool{}
	wait(t, 40*time.Second, fmt.Sprintf("%s waits: %s", pod, reasons), func() error {
		p, c, err := s.container(pod, "main")
		if err != nil {
			return err
		}
		if w := c.State.Waiting; w != nil && strings.Contains(w.Message, image) {
			seen[w.Reason] = true
		}
		for _, reason := range reasons {
			if !seen[reason] {
				return fmt.Errorf("%s not seen: %s", reason, brief(p))
			}
		}
		return nil
	})
}
