package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func testRecord() record {
	return record{
		ID: "0a1b2c", Dir: "/tmp/pwtb-0a1b2c",
		Owner: procID{PID: 10, Start: 100}, Watchdog: procID{PID: 11, Start: 101},
		Machine:  machine{Boot: "boot", PIDNS: "pid:[1]"},
		Networks: []network{newNetwork("0a1b2c", "v1", netip.MustParsePrefix("10.64.0.0/24"))},
	}
}

func TestVerdictOnRecords(t *testing.T) {
	here := machine{Boot: "boot", PIDNS: "pid:[1]"}
	for name, tc := range map[string]struct {
		here  machine
		alive []procID
		want  verdict
	}{
		"both running":           {here, []procID{{10, 100}, {11, 101}}, verdictLive},
		"only the watchdog":      {here, []procID{{11, 101}}, verdictLive},
		"only the testbed":       {here, []procID{{10, 100}}, verdictLive},
		"neither running":        {here, nil, verdictStale},
		"process ids reused":     {here, []procID{{10, 200}, {11, 201}}, verdictStale},
		"after a boot":           {machine{Boot: "next", PIDNS: "pid:[1]"}, []procID{{10, 100}}, verdictStale},
		"in another container":   {machine{Boot: "boot", PIDNS: "pid:[2]"}, nil, verdictForeign},
		"container after a boot": {machine{Boot: "next", PIDNS: "pid:[2]"}, nil, verdictStale},
	} {
		alive := func(id procID) bool {
			for _, a := range tc.alive {
				if a == id {
					return true
				}
			}
			return false
		}
		require.Equal(t, tc.want, testRecord().judge(tc.here, alive), name)
	}
}

func TestRecordKept(t *testing.T) {
	c := cache{dir: t.TempDir()}
	require.NoError(t, os.Mkdir(c.runs(), 0o700))
	want := testRecord()
	require.NoError(t, c.save(want))
	got, err := c.load(want.ID)
	require.NoError(t, err)
	require.Equal(t, want, got)

	require.NoError(t, os.WriteFile(c.recordPath("ffffff"), []byte("{"), 0o600))
	all, err := c.records()
	require.ErrorContains(t, err, "ffffff.json")
	require.Equal(t, []record{want}, all)
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.64.0.0/24")}, subnets(all))

	require.NoError(t, c.drop(want.ID))
	require.NoError(t, c.drop(want.ID))
	require.NoFileExists(t, filepath.Join(c.runs(), want.ID+".json"))
}

func TestHarmfulRecords(t *testing.T) {
	require.NoError(t, testRecord().validate())
	for name, spoil := range map[string]func(*record){
		"id":            func(r *record) { r.ID = "../../" },
		"empty id":      func(r *record) { r.ID = "" },
		"root folder":   func(r *record) { r.Dir = "/" },
		"home":          func(r *record) { r.Dir = "/root" },
		"relative":      func(r *record) { r.Dir = "pwtb-0a1b2c" },
		"other folder":  func(r *record) { r.Dir = "/tmp/pwtb-ffffff" },
		"other bridge":  func(r *record) { r.Networks[0].Bridge = "docker0" },
		"other network": func(r *record) { r.Networks[0].Name = "podman" },
	} {
		r := testRecord()
		spoil(&r)
		require.Error(t, r.validate(), name)
	}
}
