// Command counts prints the size of this repository: packages, exported types, Config
// structs and their unused fields of the root module, and the code lines of every room.
//
//	go run ./examples/tools/counts          # from the root of the repository
//	go run ./examples/tools/counts -fields  # lists the unused fields by name
//
// It only reports. No test compares the counts with the goals. It type-checks the packages
// of go.work for the operating system of the host, after the go command compiled them.
package main

import (
	"flag"
	"fmt"
	"go/types"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
)

const module = "github.com/podwright/podwright"

func main() {
	log.SetFlags(0)
	names := flag.Bool("fields", false, "list the Config fields that no other package sets outside tests")
	flag.Parse()
	listed, imports, err := load()
	if err != nil {
		log.Fatal("counts: ", err)
	}
	rooms, err := countLines(os.DirFS("."))
	if err != nil {
		log.Fatal("counts: ", err)
	}
	count, unused := countModule(listed, imports)
	fmt.Printf("%-42s %8s %8s\n", "root module", "count", "goal")
	for _, r := range []struct{ name, goal string }{
		{"packages", "78"}, {"public packages", "68"}, {"exported types", "450"}, {"Config structs", "55"},
		{"Config fields", ""}, {"  unset by other packages outside tests", ""}, {"  unset by other packages and Examples", ""},
	} {
		fmt.Printf("%-42s %8d %8s\n", r.name, count[r.name], r.goal)
	}
	fmt.Printf("\n%-42s %8s %8s\n", "code lines", "product", "tests")
	for _, name := range slices.Sorted(maps.Keys(rooms)) {
		fmt.Printf("%-42s %8d %8d\n", name, rooms[name].product, rooms[name].tests)
	}
	if *names {
		fmt.Println("\nConfig fields unset by other packages outside tests (* set by a test or an Example):\n" + strings.Join(unused, "\n"))
	}
}

// countModule returns the counts of the root module and the names of its unused fields. It counts types,
// structs and fields of public packages only.
func countModule(listed []listedPackage, imports types.Importer) (count map[string]int, unused []string) {
	count = map[string]int{}
	users := fieldUsers(listed, imports)
	for _, l := range listed {
		if l.Module.Path != module {
			continue
		}
		count["packages"]++
		pkg, err := imports.Import(l.ImportPath)
		if err != nil || strings.Contains(l.ImportPath+"/", "/internal/") {
			continue
		}
		count["public packages"]++
		for _, name := range pkg.Scope().Names() {
			object, isType := pkg.Scope().Lookup(name).(*types.TypeName)
			if !isType || !object.Exported() {
				continue
			}
			count["exported types"]++
			config, isStruct := object.Type().Underlying().(*types.Struct)
			if !isStruct || object.IsAlias() || !strings.HasSuffix(name, "Config") {
				continue
			}
			count["Config structs"]++
			for field := range config.Fields() {
				if !field.Exported() {
					continue
				}
				count["Config fields"]++
				by, mark := users[field], " *"
				if by.product {
					continue
				}
				count["  unset by other packages outside tests"]++
				if !by.tests {
					count["  unset by other packages and Examples"]++
					mark = ""
				}
				unused = append(unused, strings.TrimPrefix(l.ImportPath, module+"/")+"."+name+"."+field.Name()+mark)
			}
		}
	}
	return count, unused
}
