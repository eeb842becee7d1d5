package podwright_test

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/podwright/podwright"

// floor limits the imports of a package: the allowed packages of this module, and the number of
// outside packages (import paths with a dot in the first element, transitive imports included).
type floor struct {
	own     []string
	outside int
	forbid  []string
}

const (
	grpc    = "google.golang.org/grpc"
	coreAPI = "k8s.io/api/core"
)

// noGRPC is forbidden in packages that must be usable without a CRI runtime.
var noGRPC = []string{grpc, "k8s.io/client-go", "k8s.io/cri-api"}

// noCore is forbidden in packages that use a runtime but no API server.
var noCore = []string{coreAPI, "k8s.io/client-go"}

// floors is the floor plan, lowest floor first. A package that is not listed here fails the
// test: a new package needs a decision about its floor.
var floors = map[string]floor{
	// The types that all packages share.
	".": {outside: 85, forbid: noGRPC},

	"internal/podfacts":  {outside: 85, forbid: noGRPC},
	"internal/fs":        {outside: 1},
	"internal/backoff":   {outside: 0},
	"internal/clip":      {outside: 0},
	"internal/loglimit":  {outside: 0},
	"internal/memnet":    {outside: 0},
	"internal/run":       {outside: 0},
	"internal/span":      {outside: 0},
	"internal/fields":    {outside: 0},
	"internal/yamlmerge": {outside: 2},
	// Only the test and the recorder of golden requests import it.
	"internal/testkit/golden": {own: []string{"cri", "cri/fake", "cri/logs"}, outside: 120, forbid: noCore},
	// Only exported suites import these three.
	"internal/bubbletest": {outside: 0},
	"internal/difference": {outside: 0},
	"internal/orders":     {outside: 0},
	// Only tests import these four.
	"internal/testkit/child":     {outside: 10},
	"internal/testkit/testcri":   {own: []string{"cri"}, outside: 120, forbid: noCore},
	"internal/testkit/testagent": {own: []string{"cri", "cri/fake", "cri/logs"}, outside: 175},
	"internal/testpods":          {outside: 85, forbid: noGRPC},

	"podworkers":             {outside: 85, forbid: noGRPC},
	"pleg":                   {own: []string{"pleg/observed"}, outside: 85, forbid: noGRPC},
	"pleg/observed":          {outside: 85, forbid: noGRPC},
	"probe":                  {outside: 85, forbid: noGRPC},
	"probe/probetest":        {own: []string{"probe"}, outside: 85, forbid: noGRPC},
	"probe/internal/network": {own: []string{"probe"}, outside: 85, forbid: noGRPC},
	// It has only tests.
	"probe/internal/containerd": {outside: 0},
	// Only tests import it.
	"probe/internal/networktest": {outside: 85, forbid: noGRPC},
	"probe/httpget":              {own: []string{"probe", "probe/internal/network"}, outside: 85, forbid: noGRPC},
	"probe/tcpsocket":            {own: []string{"probe", "probe/internal/network"}, outside: 85, forbid: noGRPC},
	"probe/exec":                 {own: []string{"probe"}, outside: 85, forbid: noGRPC},
	// It connects to containers by gRPC.
	"probe/grpc": {own: []string{"probe", "probe/internal/network"}, outside: 170, forbid: []string{"k8s.io/client-go", "k8s.io/cri-api"}},

	"cri": {outside: 120, forbid: noCore},

	"cri/cgroups": {outside: 85, forbid: noGRPC},
	"cri/stats":   {own: []string{"cri"}, outside: 120, forbid: noCore},

	"podworkers/stages":            {own: []string{"podworkers"}, outside: 85, forbid: noGRPC},
	"podworkers/stages/stagestest": {own: []string{"podworkers/stages", "podworkers"}, outside: 85, forbid: noGRPC},
	"podworkers/podworkerstest":    {own: []string{"podworkers"}, outside: 85, forbid: noGRPC},
	"status/internal/podstatus":    {outside: 85, forbid: noGRPC},

	"pleg/plegtest":     {own: []string{"pleg", "pleg/observed"}, outside: 85, forbid: noGRPC},
	"status":            {own: []string{"pleg/observed", "probe"}, outside: 85, forbid: noGRPC},
	"status/writer":     {own: []string{"status", "pleg/observed", "probe"}, outside: 85, forbid: noGRPC},
	"status/node":       {outside: 85, forbid: noGRPC},
	"status/statustest": {own: []string{"status", "status/writer", "pleg/observed", "probe"}, outside: 85, forbid: noGRPC},
	"status/filesink":   {own: []string{"status", "pleg/observed", "probe"}, outside: 85, forbid: noGRPC},
	"status/checkpoint": {own: []string{"probe"}, outside: 85, forbid: noGRPC},
	"cri/images": {
		own: []string{
			"cri", "cri/images/credentials", "cri/images/imageref", "cri/images/records",
		},
		outside: 175, forbid: []string{"k8s.io/client-go"},
	},
	"cri/images/credentials": {own: []string{"cri/images/imageref"}, outside: 175, forbid: []string{"k8s.io/client-go"}},
	"cri/images/gc":          {own: []string{"cri/images/imageref"}, outside: 175, forbid: []string{"k8s.io/client-go"}},
	"cri/images/imageref":    {outside: 2},
	"cri/images/records": {
		own: []string{"cri/images/credentials", "cri/images/imageref"}, outside: 175, forbid: []string{"k8s.io/client-go"},
	},
	"cri/logs":       {own: []string{"cri"}, outside: 120, forbid: noCore},
	"cri/kubeletapi": {own: []string{"cri", "cri/logs"}, outside: 120, forbid: noCore},
	"cri/fake":       {own: []string{"cri", "cri/logs"}, outside: 120, forbid: noCore},
	"cri/embedded":   {own: []string{"cri", "cri/fake", "cri/logs"}, outside: 120, forbid: noCore},
	"cri/critest":    {own: []string{"cri", "cri/fake", "cri/logs"}, outside: 120, forbid: noCore},
	// It serves sessions with the code of containerd, so that clients meet the real protocol.
	// That code imports SPDY, WebSocket and a REST router, so this package is a separate module.
	"cri/streams":              {own: []string{"cri", "cri/fake", "cri/logs"}, outside: 145, forbid: noCore},
	"volume":                   {outside: 85, forbid: noGRPC},
	"volume/volumetest":        {own: []string{"volume"}, outside: 85, forbid: noGRPC},
	"volume/manager":           {own: []string{"volume"}, outside: 85, forbid: noGRPC},
	"volume/claims":            {own: []string{"volume"}, outside: 85, forbid: noGRPC},
	"volume/hostpath":          {own: []string{"volume"}, outside: 85, forbid: noGRPC},
	"volume/objects":           {own: []string{"volume"}, outside: 85, forbid: noGRPC},
	"volume/projected":         {own: []string{"volume", "volume/objects", "volume/ownership"}, outside: 85, forbid: noGRPC},
	"volume/ownership":         {outside: 85, forbid: noGRPC},
	"volume/mounts":            {outside: 1},
	"volume/subpath":           {own: []string{"volume", "volume/mounts"}, outside: 85, forbid: noGRPC},
	"volume/podfolder":         {own: []string{"volume/mounts"}, outside: 85, forbid: noGRPC},
	"volume/usage":             {outside: 1},
	"volume/nfs":               {own: []string{"volume", "volume/mounts"}, outside: 85, forbid: noGRPC},
	"volume/internal/blockdev": {own: []string{"volume/mounts"}, outside: 85, forbid: noGRPC},
	"volume/local":             {own: []string{"volume", "volume/mounts", "volume/ownership"}, outside: 85, forbid: noGRPC},
	"volume/emptydir":          {own: []string{"volume", "volume/mounts", "volume/ownership"}, outside: 85, forbid: noGRPC},
	"volume/csi":               {own: []string{"volume", "volume/mounts", "volume/objects", "volume/ownership", "volume/usage"}, outside: 85, forbid: noGRPC},

	"syncloop":                 {own: []string{"podworkers"}, outside: 85, forbid: noGRPC},
	"syncloop/eventsourcetest": {own: []string{"syncloop", "podworkers"}, outside: 85, forbid: noGRPC},
	"syncloop/shutdown":        {own: []string{"syncloop", "podworkers"}, outside: 85, forbid: noGRPC},

	"syncloop/admission":  {own: []string{"podworkers", "syncloop"}, outside: 85, forbid: noGRPC},
	"syncloop/allocation": {own: []string{"podworkers", "syncloop"}, outside: 85, forbid: noGRPC},
	"syncloop/eviction":   {own: []string{"podworkers", "syncloop"}, outside: 85, forbid: noGRPC},
	"syncloop/podsource":  {own: []string{"syncloop", "podworkers"}, outside: 85, forbid: noGRPC},
	"cri/pods/actions":    {own: []string{"cri/cgroups", "pleg/observed", "probe"}, outside: 85, forbid: noGRPC},
	"cri/pods/labels":     {outside: 120, forbid: noCore},
	"cri/pods/request":    {own: []string{"cri/cgroups", "cri", "cri/pods/labels", "volume", "volume/hostpath"}, outside: 175, forbid: []string{"k8s.io/client-go"}},
	"cri/pods/podfiles": {
		own:     []string{"cri/cgroups", "cri", "cri/pods/labels", "cri/pods/request", "volume", "volume/hostpath"},
		outside: 175, forbid: []string{"k8s.io/client-go"},
	},
	"cri/pods/observe": {
		own: []string{
			"cri/cgroups", "cri", "cri/logs", "cri/pods/labels", "cri/pods/podfiles", "cri/pods/request",
			"pleg", "pleg/observed", "volume", "volume/hostpath",
		},
		outside: 175, forbid: []string{"k8s.io/client-go"},
	},
	"cri/pods/garbage": {
		own: []string{
			"cri/cgroups", "cri", "cri/logs", "cri/pods/labels", "cri/pods/observe", "cri/pods/podfiles", "cri/pods/request",
			"pleg", "pleg/observed", "volume", "volume/hostpath",
		},
		outside: 175, forbid: []string{"k8s.io/client-go"},
	},
	"cri/pods/resize": {
		own: []string{
			"cri/cgroups", "cri", "cri/pods/actions", "cri/pods/labels", "cri/pods/request",
			"pleg/observed", "probe", "volume", "volume/hostpath",
		},
		outside: 175, forbid: []string{"k8s.io/client-go"},
	},
	"cri/pods": {
		own: []string{
			"cri", "cri/images", "cri/images/credentials", "cri/images/imageref", "cri/images/records", "cri/logs",
			"cri/cgroups", "cri/pods/actions", "cri/pods/garbage", "cri/pods/labels", "cri/pods/observe", "cri/pods/podfiles", "cri/pods/request",
			"cri/pods/resize", "pleg", "pleg/observed", "probe", "volume", "volume/hostpath",
		},
		outside: 175, forbid: []string{"k8s.io/client-go"},
	},
	"cri/podsyncer": {
		own: []string{
			"cri", "cri/images", "cri/images/credentials", "cri/images/imageref", "cri/images/records", "cri/kubeletapi", "cri/logs",
			"cri/cgroups", "cri/pods", "cri/pods/actions", "cri/pods/garbage", "cri/pods/labels", "cri/pods/observe", "cri/pods/podfiles", "cri/pods/request",
			"cri/pods/resize", "pleg", "pleg/observed", "podworkers", "podworkers/stages", "probe", "status", "status/checkpoint", "status/writer", "syncloop",
			"volume", "volume/hostpath",
		},
		outside: 175, forbid: []string{"k8s.io/client-go"},
	},
	"cri/pods/hooks": {own: []string{"cri"}, outside: 175, forbid: []string{"k8s.io/client-go"}},
}

func TestFloors(t *testing.T) {
	moduleCache(t)
	listed := map[string]bool{}
	for _, folder := range []string{".", "cri/streams"} { // one per module
		for _, line := range list(t, folder, "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...") {
			pkg, deps, _ := strings.Cut(line, " ")
			name := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/"), ".")
			listed[name] = true
			t.Run(name, func(t *testing.T) {
				f, ok := floors[name]
				require.True(t, ok, "%s is missing in floors", name)
				check(t, name, strings.Fields(deps), f)
			})
		}
	}
	for name, f := range floors {
		for _, pkg := range append(f.own, name) {
			require.True(t, listed[pkg], "floors of %s: no package %s", name, pkg)
		}
	}
}

func check(t *testing.T, name string, deps []string, f floor) {
	outside := 0
	for _, dep := range deps {
		own, isOwn := strings.CutPrefix(dep, module+"/")
		first, _, _ := strings.Cut(dep, "/")
		switch {
		case dep == module:
		case isOwn:
			// A package may import its own internal folder.
			owner, _, internal := strings.Cut(own, "/internal/")
			private := internal && (owner == name || slices.Contains(f.own, owner))
			// Every package may import internal packages, except those for tests.
			cellar := strings.HasPrefix(own, "internal/") && !strings.HasPrefix(own, testkit)
			require.True(t, private || cellar || slices.Contains(f.own, own), "%s must not import %s", name, own)
		case strings.Contains(first, "."):
			outside++
			for _, prefix := range f.forbid {
				require.False(t, dep == prefix || strings.HasPrefix(dep, prefix+"/"), "%s must not import %s", name, dep)
			}
		}
	}
	require.LessOrEqual(t, outside, f.outside, "%s: packages from outside", name)
}

// testkit is the folder of packages for tests and for examples/tools. TestFloors refuses them in
// all other modules.
const testkit = "internal/testkit/"

func TestTestkit(t *testing.T) {
	for _, line := range list(t, "examples", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...") {
		pkg, deps, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(pkg, module+"/examples/tools/") {
			require.NotContains(t, deps, module+"/"+testkit, pkg)
		}
	}
}

// direct are the modules that the root module may require directly.
var direct = map[string]string{
	"k8s.io/api":                  "the pod types",
	"k8s.io/apimachinery":         "metadata, UIDs, quantities, name validation",
	"k8s.io/cri-api":              "the runtime's wire format",
	"k8s.io/mount-utils":          "mounts of volumes",
	"k8s.io/utils":                "the type that starts mount-utils' programs, so that they end with a context",
	"k8s.io/kubelet":              "types of the kubelet's configuration and plugin APIs",
	"k8s.io/component-helpers":    "pod requests, node affinity and taints: the packages without a client",
	"k8s.io/klog/v2":              "a parameter of the check for tolerated taints",
	"google.golang.org/grpc":      "the runtime's transport",
	"sigs.k8s.io/yaml":            "manifests",
	"golang.org/x/sys":            "Linux calls: subreaper, process groups, file flags",
	"github.com/stretchr/testify": "tests",
	"go.uber.org/goleak":          "tests: no goroutine remains",
	"google.golang.org/protobuf":  "comes with cri-api: its messages are cloned and compared",

	"github.com/distribution/reference": "the grammar of image names",
}

func TestDirectRequirements(t *testing.T) {
	out, err := exec.Command("go", "mod", "edit", "-json").Output()
	require.NoError(t, err)
	var file struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	require.NoError(t, json.Unmarshal(out, &file))
	require.NotEmpty(t, file.Require)
	for _, m := range file.Require {
		if !m.Indirect {
			require.NotEmpty(t, direct[m.Path], "%s is a direct requirement without a reason", m.Path)
		}
	}
}

// moduleCache returns the folder of the module cache. Without one it skips the test: a test binary
// may run on a machine that has no modules.
func moduleCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	require.NoError(t, err)
	cache := strings.TrimSpace(string(out))
	if _, err := os.Stat(cache); err != nil {
		t.Skip("no module cache: ", err)
	}
	return cache
}

// list runs go list in the folder of a module and returns its lines.
func list(t *testing.T, folder string, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = folder
	cmd.Env = append(cmd.Environ(), "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go list %v: %s", args, &stderr)
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
