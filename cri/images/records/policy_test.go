package records

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPolicies(t *testing.T) {
	for _, tc := range []struct {
		policy                    Policy
		preloaded, pulled, listed bool // what asks for verification
	}{
		{"", false, true, true},
		{NeverVerify, false, false, false},
		{NeverVerifyPreloadedImages, false, true, true},
		{NeverVerifyAllowlistedImages, true, true, false},
		{AlwaysVerify, true, true, true},
	} {
		var list []string
		if tc.policy == NeverVerifyAllowlistedImages {
			list = []string{"r.io/listed"}
		}
		r, err := newRule(tc.policy, list)
		require.NoError(t, err)
		require.Equal(t, tc.preloaded, r.verifies("r.io/x", false), tc.policy)
		require.Equal(t, tc.pulled, r.verifies("r.io/x", true), tc.policy)
		require.Equal(t, tc.listed, r.verifies("r.io/listed", true), tc.policy)
	}
}

func TestAllowlist(t *testing.T) {
	r, err := newRule(NeverVerifyAllowlistedImages, []string{"r.io/team/*", "busybox", "r.io:5000/x", "s.io/*"})
	require.NoError(t, err)
	for repository, want := range map[string]bool{
		"r.io/team/a": true, "r.io/team/a/b": true, "r.io/team": false, "r.io/teamwork/a": false,
		"busybox": true, "library/busybox": false, "r.io:5000/x": true, "r.io:5000/x/y": false, "s.io/x": true, "s.iox/y": false,
	} {
		require.Equal(t, want, r.listed(repository), repository)
	}
	for _, bad := range []string{"", " r.io/x", "r.io/x ", "r.io/x:v1", "r.io/x@sha256:00", "*", "/*", "r.io/*/x", "r.io/x*", "*.io/x", "UPPER"} {
		_, err := newRule(NeverVerifyAllowlistedImages, []string{"ok", bad})
		require.ErrorContains(t, err, "Config.Allowlist[1]", bad)
		require.Error(t, CheckAllowlistEntry(bad), bad)
	}
	require.NoError(t, CheckAllowlistEntry("r.io/team/*"))
	_, err = newRule("Sometimes", nil)
	require.ErrorContains(t, err, `Config.Policy "Sometimes"`)
	_, err = newRule(AlwaysVerify, []string{"r.io/x"})
	require.ErrorContains(t, err, "Config.Allowlist needs")
}
