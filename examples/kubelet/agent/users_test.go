package agent

import (
	"context"
	"errors"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// The IDs of pods are those that the node has set aside, if it says so clearly.
func TestSubIDs(t *testing.T) {
	const some = "0: kubelet 65536 7208960\n"
	broken := errors.New("exit status 1")
	for name, tc := range map[string]struct {
		users, groups string
		usersErr      error
		groupsErr     error
		first, length uint32
		err           string
	}{
		"set aside":        {users: some, groups: some, first: 65536, length: 7208960},
		"no such program":  {usersErr: &exec.Error{Name: "getsubids", Err: exec.ErrNotFound}},
		"none":             {usersErr: broken, err: "subordinate IDs of user kubelet: exit status 1"},
		"none for groups":  {users: some, groupsErr: broken, err: "exit status 1"},
		"groups differ":    {users: some, groups: "0: kubelet 131072 65536\n", err: "differ"},
		"more than one":    {users: some + some, groups: some + some, err: "not one range"},
		"no range at all":  {users: "\n", groups: "\n", err: "not one range"},
		"what is no range": {users: "0: kubelet a b\n", groups: "0: kubelet a b\n", err: "getsubids"},
	} {
		t.Run(name, func(t *testing.T) {
			first, length, err := subIDs(t.Context(), func(_ context.Context, args ...string) (string, error) {
				if len(args) == 2 {
					return tc.groups, tc.groupsErr
				}
				return tc.users, tc.usersErr
			})
			require.Equal(t, tc.first, first)
			require.Equal(t, tc.length, length)
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
}
