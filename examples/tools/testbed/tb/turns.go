package tb

import (
	"cmp"
	"hash/fnv"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/podwright/podwright/examples/tools/testbed/internal/env"
)

// Turns returns the runtimes for a test that keeps a runtime busy. By default it returns one,
// because on two cores both at once take as long as one after the other. The test's name and
// PODWRIGHT_TURN, by default the hour, select it; the next number selects the other runtime. With
// PODWRIGHT_EVERY_RUNTIME=1 Turns returns all. It skips the test outside of a testbed.
func Turns(t testing.TB) []Runtime {
	t.Helper()
	all := Runtimes(t)
	if os.Getenv(env.EveryRuntime) == "1" {
		return all
	}
	turn, err := strconv.ParseUint(cmp.Or(os.Getenv(env.Turn), strconv.FormatInt(time.Now().Unix()/3600, 10)), 10, 31)
	if err != nil {
		t.Fatalf("%s: %v", env.Turn, err)
	}
	name := fnv.New32a()
	name.Write([]byte(t.Name()))
	i := (uint64(name.Sum32()) + turn) % uint64(len(all))
	t.Logf("on %s (%s=%d)", all[i].Name, env.Turn, turn)
	return all[i : i+1]
}
