// Reads histories of one register, one a line as JSON, and says of each whether
// porcupine finds it linearizable. The program beside it asks, and compares.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	Client int   `json:"client"`
	Write  bool  `json:"write"`
	Value  int64 `json:"value"`
	Call   int64 `json:"call"`
	Return int64 `json:"return"`
}

// A register that holds 0 at first.
var register = porcupine.Model{
	Init: func() interface{} { return int64(0) },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		done := input.(operation)
		if done.Write {
			return true, done.Value
		}
		return state.(int64) == done.Value, state
	},
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	answers := bufio.NewWriter(os.Stdout)
	defer answers.Flush()
	for lines.Scan() {
		var history []operation
		if err := json.Unmarshal(lines.Bytes(), &history); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		operations := make([]porcupine.Operation, 0, len(history))
		for _, done := range history {
			operations = append(operations, porcupine.Operation{
				ClientId: done.Client,
				Input:    done,
				Output:   done,
				Call:     done.Call,
				Return:   done.Return,
			})
		}
		fmt.Fprintln(answers, porcupine.CheckOperations(register, operations))
	}
}
