// Package script makes a container runtime slow and faulty, by rules that read
// like English:
//
//	# comments and empty lines mean nothing
//	seed 42
//	2nd StopContainer of pod a: hang 30s, then Unknown "lost"
//	every StartContainer of container app of pod prod/web: take 10ms to 40ms
//	1st to 3rd PullImage of image busybox:1.36: Unavailable "registry is down"
//	from the 5th CreateContainer: do, then hang 30s, then Unknown "reply lost"
//	every 3rd ListPodSandbox: DeadlineExceeded
//	10% of RemoveContainer: Internal
//	1st to 4th ExecSync of container app: exit 1 "not ready"
//	40th call: restart
//	1st event stopped of pod a: drop
//	every run of container app attempt 0: take 3s, then exit 1 Error
//
// Parse reads a script and String writes one; what is written parses back to the
// same value. Rules can be made in Go, too: On, OnObject, Nth and their like.
//
//   - A Player puts a script before any cri.RuntimeService and cri.ImageService: the
//     fake, or the client of a real runtime.
//   - Script.Programs makes the fake run containers as a script says.
//   - Random makes a script for a soak test, and Reduce cuts down one that fails.
//
// A Player takes no time and has no goroutine of its own besides those that a call
// waits for, and time is package time: in a testing/synctest bubble an hour of
// faults takes milliseconds. To have faults on the wire, serve the player:
// fake.Register(server, player, player).
//
// # A rule
//
// A rule has a counter. It counts the calls (or events, or runs) that are of its
// subject and about its object: "2nd StopContainer of pod a" is the second call of
// StopContainer for any container of a, whatever was stopped elsewhere, and other
// rules do not matter. Calls count in the order in which they begin; one whose
// context has ended before does not.
//
// When several rules fire at one call, then
//
//   - rules that have only takes are latencies: they all add up, and come first;
//   - of the other rules the first one in the script decides, alone.
//
// A chance, and a duration from a range, is a function of the seed, the rule's text
// and the rule's count. So the same order of calls gives the same, and a rule can be
// removed without changing what the others do.
//
// # Steps of a call
//
//	take 50ms               wait; a call whose context ends meanwhile ends with it
//	take 10ms to 40ms       a random time
//	hang 30s                wait, too; but the rule is no latency: it decides
//	hang                    wait until the call's context ends
//	do                      perform the call; the caller gets its reply at the end
//	Unknown "text"          the result: an error, any gRPC code; the text may be left out
//	empty reply             the result: success, with nothing in it
//	exit 3 "output"         the result of an ExecSync: exit code and standard output
//	restart                 restart the runtime, by Config.Restart
//	restart losing state
//
// An error without a do before it has no effect: the call never reached the
// runtime. With one it has, and only the reply was lost. A rule without do and
// without result has a do at its end. Errors are what the client makes of them:
// status.Code works, DeadlineExceeded is context.DeadlineExceeded to errors.Is, and
// of an ExecSync also cri.ErrExecTimeout. A *cri.CallError they become on the wire only.
//
// For GetContainerEvents do is the subscription, and what comes behind it happens
// while events flow: "do, then hang 30s, then Unavailable" is a stream that
// breaks after half a minute.
//
// # Steps of an event
//
//	drop                    it is lost
//	twice                   it comes twice
//	late 5s                 it comes 5s later; others overtake it
//	swap                    it comes after the next event of the stream
//	take 1s                 it and all behind it come 1s later
//	Unavailable "text"      the stream breaks in its place; after it with a do before
//
// An event counts each time it is delivered to a stream. The subjects are event,
// event created, event started, event stopped and event deleted. Sandboxes have
// events too: "of container" and "of sandbox" tell them apart. What would come
// after the end of its stream is lost.
//
// # Steps of a run
//
// A run is the life of a container's program, for Script.Programs. The first rule
// that fires decides.
//
//	take 3s                 work; the stop signal ends it, with code 143
//	until stopped           wait for the stop signal, and handle this one and all others
//	hang, hang 3s           ignore signals; without end only a kill helps, with code 137
//	exit 1 Error "text"     exit; reason and text are what the container's status has as
//	                        reason and message, and may be left out
//	Unknown "text"          the container cannot be started: it exits with reason StartError
//
// # Objects
//
// "of pod" takes name or namespace/name and fits all that belongs to the pod: its
// sandboxes, its containers, and pulls for it. "of container", with or without a name,
// and "of sandbox" fit only those, and "attempt 0" one of them. "of uid" is a pod's UID.
// "of image" fits image calls and what is done to containers that run the image, by
// the name that the caller uses. Parts can be joined: "of container app of pod prod/web".
// Lists, whatever their filter, and calls such as Version are about no object: a rule
// that names one there is refused.
//
// Names come from requests. The player asks the runtime behind it, uncounted, for
// objects that it has not seen made.
//
// # Grammar
//
//	Script   = { Line newline } .
//	Line     = [ "seed" integer | Rule ] [ "#" comment ] .
//	Rule     = [ Which ] Subject { "of" Object } ":" Step { "," [ "then" ] Step } .
//	Which    = "every" [ Ordinal ] | Ordinal [ "to" Ordinal ] | "from" [ "the" ] Ordinal | number "%" "of" .
//	Ordinal  = "1st" | "2nd" | "3rd" | "4th" | ... .
//	Subject  = CallName | "call" | "event" [ "created" | "started" | "stopped" | "deleted" ] | "run" .
//	Object   = "container" [ Name ] [ "attempt" integer ] | "sandbox" [ "attempt" integer ]
//	         | "pod" Name | "uid" Name | "image" Name .
//	Step     = "take" Span | "hang" [ duration ] | "do" | Code [ string ] | "exit" integer [ Reason ] [ string ]
//	         | "empty" "reply" | "restart" [ "losing" "state" ]
//	         | "drop" | "twice" | "late" Span | "swap" | "until" "stopped" .
//	Span     = duration [ "to" duration ] .
//	Reason   = a word of letters and digits that begins with a capital: "Error" | "OOMKilled" | ... .
//	Name     = word | string .
//
// CallName is the name of a call in the CRI, such as RunPodSandbox, and Code that of a
// gRPC code other than OK, such as Unavailable. Durations and quoted strings are those
// of Go. A word has letters, digits and . _ - / : @ % +, with no colon at its ends; other
// names are quoted, and so is a container named "of" or "attempt". Which left out is
// "every". A rule ends with its line.
//
// # The caller's duties
//
//   - Config.Restart must not wait for the calls under way: it is called in one. That
//     of the fake does not; the example of Config has the few lines it takes.
//   - Give calls that hang a context that ends.
//   - For the order of calls to be the same again, a test must make it so. Where
//     goroutines race, counts per object are less a matter of luck than "call".
//
// # What it does not do
//
// It does not corrupt replies, and changes no container that runs: what happens to a
// node without a call is for the fake's own levers.
//
// Examples that run: Example, ExampleParse, ExampleOnObject, ExampleConfig,
// ExampleReduce and ExampleRandom in example_test.go.
package script
