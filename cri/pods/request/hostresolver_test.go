package request

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What pods do not get of the node's resolver is named, all of it.
func TestCheckHostResolver(t *testing.T) {
	domains := func(n int) string { return "search" + strings.Repeat(" a.example", n) + "\n" }
	long := strings.Repeat("x", 256)
	for name, c := range map[string]struct {
		content, domain string
		want            []string
	}{
		"empty":                {},
		"all that is allowed":  {content: strings.Repeat("nameserver 10.0.0.1\n", 3) + domains(32)},
		"servers":              {content: strings.Repeat("nameserver 10.0.0.1\n", 4), want: []string{"4 name servers: pods get the first 3"}},
		"domains":              {content: domains(33), want: []string{"33 search domains: pods get the first 32"}},
		"a cluster's":          {content: domains(30), domain: "cluster.local", want: []string{"30 search domains: pods get the first 29"}},
		"with a cluster's":     {content: domains(29), domain: "cluster.local"},
		"long":                 {content: "search " + long, want: []string{"a search domain of 256 characters: pods get none of more than 255"}},
		"longest":              {content: "search " + long[1:]},
		"together at most":     {content: "search" + strings.Repeat(" "+long[:254], 8) + " " + long[:8]},
		"all together":         {content: "search" + strings.Repeat(" "+long[:250], 9), want: []string{"search domains of 2258 characters together: pods get the first 2048"}},
		"several":              {content: strings.Repeat("nameserver 10.0.0.1\n", 5) + domains(40), want: []string{"5 name servers", "40 search domains"}},
		"the last line counts": {content: domains(40) + domains(1)},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "resolv.conf")
			require.NoError(t, os.WriteFile(file, []byte(c.content), 0o600))
			err := DNS{HostResolver: file, ClusterDomain: c.domain}.CheckHostResolver()
			if len(c.want) == 0 {
				require.NoError(t, err)
				return
			}
			for _, want := range c.want {
				require.ErrorContains(t, err, file+": "+want)
			}
			require.Len(t, strings.Split(err.Error(), "\n"), len(c.want))
		})
	}
	none := filepath.Join(t.TempDir(), "none")
	require.ErrorIs(t, DNS{HostResolver: none}.CheckHostResolver(), fs.ErrNotExist)
	require.NoError(t, DNS{HostResolver: none, NoHostResolver: true}.CheckHostResolver())
}
