"""Control an environment with an exported policy: this needs onnxruntime and Gymnasium, but neither JAX nor Trustax.

Write the policy with `trustax export RUN --output policy.onnx`, then run
`python control_loop_onnx.py policy.onnx Pendulum-v1`.
"""

import sys

import gymnasium
import numpy as np
import onnxruntime

path, env_id = sys.argv[1:]
policy = onnxruntime.InferenceSession(path)
env = gymnasium.make(env_id)
observation, _ = env.reset(seed=0)
total, ended = 0.0, False
while not ended:
    batch = np.asarray(observation, np.float32)[None]  # the policy takes batches, here of one observation
    action = policy.run(["action"], {"observation": batch})[0][0]
    observation, reward, terminated, truncated, _ = env.step(action)
    total, ended = total + float(reward), terminated or truncated
print(f"return {total:.1f}")
