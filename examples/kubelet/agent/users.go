package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"time"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume/podfolder"
)

// subIDUser is the user whose subordinate IDs are used for pods with user namespaces, if the node
// has allocated some (KEP-127).
const subIDUser = "kubelet"

// subIDsTimeout bounds a call of getsubids.
const subIDsTimeout = 10 * time.Second

// newUsers restores the user namespaces of existing pods and determines the IDs for new ones.
func newUsers(ctx context.Context, cfg *Config, folders *podfolder.Folders) (*pods.UserNamespaces, error) {
	uids, err := folders.Leftovers(ctx)
	if err != nil {
		return nil, err
	}
	ids := request.IDRange{PerPod: uint32(*cfg.Kubelet.UserNamespaces.IDsPerPod)}
	if _, err := user.Lookup(subIDUser); err == nil {
		if ids.First, ids.Length, err = subIDs(ctx, getSubIDs); err != nil {
			return nil, err
		}
	}
	return pods.NewUserNamespaces(pods.UserNamespacesConfig{PodDir: folders.Pod, Pods: uids, Range: ids, Logger: cfg.Logger})
}

// subIDs returns the first subordinate ID and their number. The ranges of users and groups must be
// equal. It returns zeros, which select the default range, if getsubids is not installed.
func subIDs(ctx context.Context, get func(ctx context.Context, args ...string) (string, error)) (first, length uint32, err error) {
	users, err := get(ctx, subIDUser)
	if errors.Is(err, exec.ErrNotFound) {
		return 0, 0, nil
	}
	groups := ""
	if err == nil {
		groups, err = get(ctx, "-g", subIDUser)
	}
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("subordinate IDs of user %s: %w", subIDUser, err)
	case users != groups:
		return 0, 0, fmt.Errorf("subordinate IDs of user %s: users %q and groups %q differ", subIDUser, users, groups)
	}
	return request.ParseSubIDs(users)
}

func getSubIDs(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, subIDsTimeout)
	defer cancel()
	out, err := run.Command(ctx, "getsubids", args...).Output()
	return string(out), err
}
