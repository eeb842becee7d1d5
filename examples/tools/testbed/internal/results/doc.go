// Package results collects the events of test programs and reports them.
//
//	log := results.New(os.Stdout, repeat)
//	events := log.Reader("")        // an io.Writer
//	cmd := exec.Command("go", "test", "-json", "./...")
//	cmd.Stdout = events
//	err := cmd.Run()
//	events.Close()
//	log.Summary()                   // failures, and the commands that repeat them
//	log.Table(os.Stdout)            // wall and CPU time per package and long test
//
// A failed test is printed when it ends, with its output. Output of tests that pass is
// dropped. A Log is safe for concurrent use; a Reader is not.
package results
